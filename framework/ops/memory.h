// SPDX-License-Identifier: Apache-2.0
// Allocation and host transfer through a backend: the only ways that code above the backends touches
// tensor memory.
#pragma once
#include <span>
#include <vector>

#include "framework/ops/backend.h"

namespace tessera {

Tensor empty(Backend& backend, DType dtype, Shape shape);  // uninitialised
Tensor zeros(Backend& backend, DType dtype, Shape shape);
Tensor converted(Backend& backend, const Tensor& x, DType dtype);  // x itself when it has that type
Tensor cloned(Backend& backend, const Tensor& x);                  // a packed copy

template <class T>
Tensor from_host(Backend& backend, std::span<const T> values, Shape shape) {
  Tensor result = empty(backend, dtype_of<T>(), shape);
  CHECK(result.elements() == static_cast<int64_t>(values.size()), "{} values for a tensor of {}",
        values.size(), result.describe());
  backend.upload(std::as_bytes(values), result);
  return result;
}

// Packed tensors; T must be the element type.
template <class T>
std::vector<T> to_host(Backend& backend, const Tensor& x) {
  CHECK(x.dtype() == dtype_of<T>(), "cannot read {} as {}", x.describe(), name_of(dtype_of<T>()));
  std::vector<T> values(static_cast<size_t>(x.elements()));
  backend.download(x, std::as_writable_bytes(std::span(values)));
  return values;
}
std::vector<double> to_host_double(Backend& backend, const Tensor& x);  // any float type, any strides

}  // namespace tessera
