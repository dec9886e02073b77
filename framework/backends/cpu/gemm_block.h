// SPDX-License-Identifier: Apache-2.0
// What the two halves of the matrix product share: block sizes, and the part of c one thread computes.
// Sizes are the same for every instruction set, so that workspace and bits are, too.
#pragma once
#include <cstdint>

#include "framework/backends/cpu/gemm.h"

namespace tessera::cpu::detail {

// The sum over k restarts every kDepth products. Changing it changes bits.
constexpr int64_t kDepth = 384;
// Rows of a packed at a time: 32 rows of a transposed a are two cache lines of each line of memory.
constexpr int64_t kPackRows = 32;
// Threads split c at multiples of these: whole tiles for each instruction set.
constexpr int64_t kRowGrain = 8, kColumnGrain = 48;
// The packed block of b is about half of a 2 MB second-level cache.
constexpr int64_t kBlockBytes = 384 * 768 * 4;
// Rows that share a packed block of b when partial sums cannot live in c.
constexpr int64_t kPartialRows = 1024;

struct GemmRegion {
  int64_t row_begin, row_end, column_begin, column_end;
};

// Workspace of one thread, carved from one 64-byte aligned piece.
struct GemmWorkspace {
  int64_t a_bytes, b_bytes, partial_bytes;
  int64_t bytes() const { return a_bytes + b_bytes + partial_bytes; }
};

constexpr int64_t round_up(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

inline int64_t accumulator_bytes(DType type) {
  return type == DType::F64 ? 8 : 4;
}

// Columns of b packed at a time. Few rows read each packed value few times: then one panel that stays in
// the first-level cache beats a large block.
inline int64_t block_columns(DType type, int64_t rows) {
  if (rows <= kRowGrain) return kColumnGrain;
  return kBlockBytes / (kDepth * accumulator_bytes(type)) / kColumnGrain * kColumnGrain;
}

// True when sums of several k blocks must be kept outside c, which is too narrow for them.
inline bool needs_partial(const GemmArgs& args) {
  return args.k > kDepth && (args.c_type == DType::BF16 || args.c_type == DType::F16);
}

// Computes one region of c on the calling thread.
void gemm_region(const GemmArgs& args, const GemmRegion& region, const GemmWorkspace& sizes, void* workspace);

}  // namespace tessera::cpu::detail
