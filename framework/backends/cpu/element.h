// SPDX-License-Identifier: Apache-2.0
// How kernels see elements: 16-bit storage is widened to fp32 a row or a chunk at a time, so that
// arithmetic is written for float and double only.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include "framework/tensor/tensor.h"

namespace tessera::cpu {

// What arithmetic on T computes in.
template <class T>
using Real = std::conditional_t<std::is_same_v<T, double>, double, float>;
template <class T>
constexpr bool kIsWide = std::is_same_v<T, Real<T>>;

void widen(const BFloat16* from, float* to, int64_t count);
void widen(const Float16* from, float* to, int64_t count);
void narrow(const float* from, BFloat16* to, int64_t count);
void narrow(const float* from, Float16* to, int64_t count);

// A tensor as rows of packed elements; a tensor with packed rows may be seen as one row.
template <class T>
struct MatrixView {
  T* data;
  int64_t rows, columns, stride;
  T* row(int64_t i) const { return data + i * stride; }
};
template <class T>
MatrixView<T> matrix_view(const Tensor& x) {
  return {x.data<T>(), x.shape().rows(), x.shape().row_elements(), x.row_stride()};
}

// Reads rows as Real<T>: the memory itself, or a copy in `buffer` of at least the row's length.
template <class T>
const Real<T>* read(const T* row, [[maybe_unused]] Real<T>* buffer, [[maybe_unused]] int64_t count) {
  if constexpr (kIsWide<T>) {
    return row;
  } else {
    widen(row, buffer, count);
    return buffer;
  }
}
// Where to compute a row that is then handed to `written`: the memory itself, or the buffer.
template <class T>
Real<T>* target(T* row, [[maybe_unused]] Real<T>* buffer) {
  if constexpr (kIsWide<T>)
    return row;
  else
    return buffer;
}
template <class T>
void written([[maybe_unused]] const Real<T>* buffer, [[maybe_unused]] T* row,
             [[maybe_unused]] int64_t count) {
  if constexpr (!kIsWide<T>) narrow(buffer, row, count);
}

// Buffers for `rows` rows of `count` elements, empty when T needs none.
template <class T>
class RowBuffers {
 public:
  RowBuffers(int rows, int64_t count)
      : count_(count), memory_(kIsWide<T> ? 0 : static_cast<size_t>(rows * count)) {}
  Real<T>* operator[](int row) { return kIsWide<T> ? nullptr : memory_.data() + row * count_; }

 private:
  int64_t count_;
  std::vector<Real<T>> memory_;
};

// Calls f.template operator()<R>() for a tensor of statistics or masters: double or float.
template <class F>
decltype(auto) visit_real(const Tensor& x, F&& f) {
  if (x.dtype() == DType::F64) return f.template operator()<double>();
  CHECK(x.dtype() == DType::F32, "expected fp32 or fp64, got {}", x.describe());
  return f.template operator()<float>();
}

// Rows that are worth a thread of their own: about 16K elements.
inline int64_t row_grain(int64_t columns) {
  return std::max<int64_t>(1, (int64_t{1} << 14) / std::max<int64_t>(columns, 1));
}

// to[i] += terms[i], rounded once; `to` is packed and of any floating type.
template <class R>
void add_terms(const R* terms, const Tensor& to) {
  visit_float(to.dtype(), [&]<class A>() {
    A* sums = to.data<A>();
    for (int64_t i = 0; i < to.elements(); ++i)
      sums[i] = static_cast<A>(
          static_cast<Real<A>>(static_cast<Real<A>>(sums[i]) + static_cast<Real<A>>(terms[i])));
  });
}

}  // namespace tessera::cpu
