// SPDX-License-Identifier: Apache-2.0
// Sums in an order fixed by the data alone.
#pragma once
#include "framework/ops/backend.h"

namespace tessera {

// out[c] += sum over the rows of x: the gradient of a bias.
void column_sum(Backend& backend, const Tensor& x, const Tensor& out);
// out = terms[0] + terms[1] + ..., rounded once.
void sum(Backend& backend, std::span<const Tensor> terms, const Tensor& out);
// out (F64 [1]) += sum of squares; not finite when an element is not.
void sum_squares(Backend& backend, const Tensor& x, const Tensor& out);

}  // namespace tessera
