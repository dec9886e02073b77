// SPDX-License-Identifier: Apache-2.0
// Walks tensors of one shape in pieces of packed elements, for operations that know no rows.
#pragma once
#include <algorithm>
#include <cstdint>
#include <initializer_list>

#include "framework/backends/cpu/element.h"
#include "framework/backends/cpu/parallel.h"

namespace tessera::cpu {

// Elements of one piece: small enough for buffers on the stack.
constexpr int64_t kPiece = 1024;

// Calls body(row, column, count) for pieces that cover [rows, columns]; when every tensor is packed they are
// taken as one row.
template <class F>
void for_pieces(int threads, std::initializer_list<const Tensor*> tensors, F&& body) {
  const Shape& shape = (*tensors.begin())->shape();
  const bool packed =
      std::all_of(tensors.begin(), tensors.end(), [](const Tensor* x) { return x->packed(); });
  const int64_t rows = packed ? 1 : shape.rows();
  const int64_t columns = packed ? shape.elements() : shape.row_elements();
  const int64_t pieces = (columns + kPiece - 1) / kPiece;
  parallel_for(threads, rows * pieces, 32, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t column = i % pieces * kPiece;
      body(i / pieces, column, std::min(kPiece, columns - column));
    }
  });
}

template <class T>
T* piece(const Tensor& x, int64_t row, int64_t column) {
  return x.data<T>() + row * x.row_stride() + column;
}

}  // namespace tessera::cpu
