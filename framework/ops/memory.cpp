// SPDX-License-Identifier: Apache-2.0
#include "framework/ops/memory.h"

namespace tessera {

Tensor empty(Backend& backend, DType dtype, Shape shape) {
  return Tensor(backend.allocator().allocate(shape.elements() * size_of(dtype)), dtype, shape);
}

Tensor zeros(Backend& backend, DType dtype, Shape shape) {
  Tensor result = empty(backend, dtype, shape);
  backend.fill(result, 0);
  return result;
}

Tensor converted(Backend& backend, const Tensor& x, DType dtype) {
  if (x.dtype() == dtype) return x;
  Tensor result = empty(backend, dtype, x.shape());
  backend.copy(x, result);
  return result;
}

Tensor cloned(Backend& backend, const Tensor& x) {
  Tensor result = empty(backend, x.dtype(), x.shape());
  backend.copy(x, result);
  return result;
}

std::vector<double> to_host_double(Backend& backend, const Tensor& x) {
  if (x.dtype() == DType::F64 && x.packed()) return to_host<double>(backend, x);
  Tensor wide = empty(backend, DType::F64, x.shape());
  backend.copy(x, wide);
  return to_host<double>(backend, wide);
}

}  // namespace tessera
