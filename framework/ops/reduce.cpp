// SPDX-License-Identifier: Apache-2.0
#include "framework/ops/reduce.h"

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

}  // namespace tessera
