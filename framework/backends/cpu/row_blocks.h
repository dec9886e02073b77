// SPDX-License-Identifier: Apache-2.0
// Sums over the rows of a matrix in an order that the number of rows alone decides: blocks of rows are
// summed row by row, then the sums of the blocks are added in order. Threads share the blocks.
#pragma once
#include <algorithm>
#include <cstdint>

#include "framework/backends/cpu/parallel.h"
#include "framework/backends/cpu/scratch.h"

namespace tessera::cpu {

constexpr int64_t kMaxRowBlocks = 64;

inline int64_t rows_per_block(int64_t rows) {
  return std::max<int64_t>(32, (rows + kMaxRowBlocks - 1) / kMaxRowBlocks);
}

inline int64_t row_block_count(int64_t rows) {
  const int64_t block = rows_per_block(rows);
  return std::max<int64_t>(1, (rows + block - 1) / block);
}

// Calls body(begin, end, partial) for each block; the body adds to partial[width], which starts as 0.
// Returns the sums [width], in scratch.
template <class R, class F>
const R* sum_row_blocks(int threads, Scratch& scratch, int64_t rows, int64_t width, F&& body) {
  const int64_t block = rows_per_block(rows), blocks = row_block_count(rows);
  R* partial = scratch.reserve_elements<R>(blocks * width);
  std::fill_n(partial, blocks * width, R(0));
  parallel_for(threads, blocks, 1, [&](int64_t first, int64_t last) {
    for (int64_t b = first; b < last; ++b)
      if (b * block < rows) body(b * block, std::min((b + 1) * block, rows), partial + b * width);
  });
  for (int64_t b = 1; b < blocks; ++b)
    for (int64_t c = 0; c < width; ++c) partial[c] += partial[b * width + c];
  return partial;
}

}  // namespace tessera::cpu
