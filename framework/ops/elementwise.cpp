// SPDX-License-Identifier: Apache-2.0
#include "framework/ops/elementwise.h"

#include "framework/ops/checks.h"
#include "framework/ops/memory.h"

namespace tessera {

void fill(Backend& backend, const Tensor& x, double value) {
  CHECK(x.defined(), "fill: no tensor");
  backend.fill(x, value);
}

void add_into(Backend& backend, const Tensor& a, const Tensor& b, const Tensor& y) {
  CHECK(a.defined() && is_float(a.dtype()), "add: a must be a floating-point tensor");
  detail::check_like("add", "b", b, a.dtype(), a.shape());
  detail::check_like("add", "y", y, a.dtype(), a.shape());
  backend.add(a, b, y);
}

Tensor add(Backend& backend, const Tensor& a, const Tensor& b) {
  Tensor y = empty(backend, a.dtype(), a.shape());
  add_into(backend, a, b, y);
  return y;
}

void scale(Backend& backend, const Tensor& x, double factor) {
  CHECK(x.defined() && is_float(x.dtype()), "scale: x must be a floating-point tensor");
  backend.scale(x, factor);
}

Tensor dropout(Backend& backend, const Tensor& x, const DropoutOptions& options, const Tensor& residual) {
  detail::check_matrix("dropout", "x", x);
  CHECK(options.probability >= 0 && options.probability < 1, "dropout: probability {}", options.probability);
  detail::check_vector("dropout", "step", options.step, DType::I64, 1);
  detail::check_vector("dropout", "row_index", options.row_index, DType::I64, x.size(0));
  if (residual.defined()) detail::check_like("dropout", "residual", residual, x.dtype(), x.shape());
  Tensor y = empty(backend, x.dtype(), x.shape());
  backend.dropout({.x = x,
                   .y = y,
                   .residual = residual,
                   .probability = options.probability,
                   .key = options.key,
                   .step = options.step,
                   .row_index = options.row_index,
                   .column_offset = options.column_offset});
  return y;
}

void init_normal(Backend& backend, const Tensor& value, RandomKey key, double std, int64_t first_index,
                 int64_t row_pitch) {
  CHECK(value.defined() && value.shape().rank() == 2 &&
            (value.dtype() == DType::F32 || value.dtype() == DType::F64),
        "init_normal: initial values are made as an fp32 or fp64 matrix");
  CHECK(first_index >= 0 && row_pitch >= 0, "init_normal: index {} and pitch {}", first_index, row_pitch);
  backend.init_normal(
      {.value = value, .key = key, .std = std, .first_index = first_index, .row_pitch = row_pitch});
}

}  // namespace tessera
