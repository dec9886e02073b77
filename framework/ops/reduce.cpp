// SPDX-License-Identifier: Apache-2.0
#include "framework/ops/reduce.h"

#include <cmath>

#include "framework/ops/checks.h"

namespace tessera {

void column_sum(Backend& backend, const Tensor& x, const Tensor& out) {
  detail::check_matrix("column_sum", "x", x);
  CHECK(out.defined() && out.packed(), "column_sum: out must be a packed tensor");
  detail::check_accumulator("column_sum", "out", out, x.dtype(), x.size(1));
  backend.column_sum(x, out);
}

void sum(Backend& backend, std::span<const Tensor> terms, const Tensor& out) {
  CHECK(!terms.empty() && out.defined() && is_float(out.dtype()),
        "sum: needs floating-point terms and a result");
  for (const Tensor& term : terms) detail::check_like("sum", "a term", term, out.dtype(), out.shape());
  backend.sum(terms, out);
}

void sum_squares(Backend& backend, const Tensor& x, const Tensor& out) {
  CHECK(x.defined() && is_float(x.dtype()), "sum_squares: x must be a floating-point tensor");
  detail::check_vector("sum_squares", "out", out, DType::F64, 1);
  backend.sum_squares(x, out);
}

void sum_squared_differences(Backend& backend, const Tensor& x, const Tensor& y, const Tensor& out) {
  CHECK(x.defined() && is_float(x.dtype()) && x.packed(),
        "sum_squared_differences: x must be a packed floating-point tensor");
  detail::check_like("sum_squared_differences", "y", y, x.dtype(), x.shape());
  CHECK(y.packed(), "sum_squared_differences: y must be packed");
  detail::check_vector("sum_squared_differences", "out", out, DType::F64, 1);
  backend.sum_squared_differences(x, y, out);
}

void histogram(Backend& backend, const Tensor& x, const Tensor& counts, const Tensor& sum) {
  CHECK(x.defined() && is_float(x.dtype()) && x.packed(),
        "histogram: x must be a packed floating-point tensor");
  detail::check_vector("histogram", "counts", counts, DType::I64, HistogramBuckets::kCount);
  detail::check_vector("histogram", "sum", sum, DType::F64, 1);
  backend.histogram(x, counts, sum);
}

double histogram_limit(int bucket) {
  const int place = bucket - HistogramBuckets::kEachSide;  // 0 in the middle
  const int edge = place >= 0 ? place : -place - 1;
  const double size = std::ldexp(1 + edge % 4 / 4.0, HistogramBuckets::kFirst + edge / 4);
  return place >= 0 ? size : -size;
}

}  // namespace tessera
