// SPDX-License-Identifier: Apache-2.0
// What the functions of ops/ check before they call a backend. A backend relies on it.
#pragma once
#include <initializer_list>

#include "framework/tensor/tensor.h"

namespace tessera::detail {

inline void check_matrix(const char* op, const char* name, const Tensor& x) {
  CHECK(x.defined() && x.shape().rank() == 2 && is_float(x.dtype()),
        "{}: {} must be a floating-point matrix, got {}", op, name, x.defined() ? x.describe() : "no tensor");
}

inline void check_like(const char* op, const char* name, const Tensor& x, DType dtype, const Shape& shape) {
  CHECK(x.defined() && x.dtype() == dtype && x.shape() == shape, "{}: {} must be {}{}, got {}", op, name,
        name_of(dtype), shape.to_string(), x.defined() ? x.describe() : "no tensor");
}

inline void check_packed(const char* op, std::initializer_list<Tensor> tensors) {
  for (const Tensor& x : tensors)
    CHECK(!x.defined() || x.packed(), "{}: {} must have packed rows", op, x.describe());
}

// A packed vector of `count` elements, however it is shaped.
inline void check_vector(const char* op, const char* name, const Tensor& x, DType dtype, int64_t count) {
  CHECK(x.defined() && x.dtype() == dtype && x.elements() == count && x.packed(),
        "{}: {} must hold {} elements of {}, got {}", op, name, count, name_of(dtype),
        x.defined() ? x.describe() : "no tensor");
}

// A gradient that is added to: `count` elements of the accumulator type (F32, F64 beside F64 tensors) or
// of the compute type; undefined when nothing is to be added.
inline void check_accumulator(const char* op, const char* name, const Tensor& x, DType compute,
                              int64_t count) {
  if (!x.defined()) return;
  const DType wide = compute == DType::F64 ? DType::F64 : DType::F32;
  CHECK((x.dtype() == wide || x.dtype() == compute) && x.elements() == count,
        "{}: {} must hold {} elements of {} or {}, got {}", op, name, count, name_of(wide), name_of(compute),
        x.describe());
}

}  // namespace tessera::detail
