// SPDX-License-Identifier: Apache-2.0
// Sums in an order fixed by the data alone, and counts.
#pragma once
#include "framework/ops/backend.h"

namespace tessera {

// out[c] += sum over the rows of x: the gradient of a bias.
void column_sum(Backend& backend, const Tensor& x, const Tensor& out);
// out = terms[0] + terms[1] + ..., rounded once.
void sum(Backend& backend, std::span<const Tensor> terms, const Tensor& out);
// out (F64 [1]) += sum of squares; not finite when an element is not.
void sum_squares(Backend& backend, const Tensor& x, const Tensor& out);
// out (F64 [1]) += sum of squares of x - y; packed tensors of one type and size.
void sum_squared_differences(Backend& backend, const Tensor& x, const Tensor& y, const Tensor& out);
// counts (I64 [HistogramBuckets::kCount]) += elements of packed x in each bucket; sum (F64 [1]) += their sum.
void histogram(Backend& backend, const Tensor& x, const Tensor& counts, const Tensor& sum);
// The upper limit of a bucket; that of bucket -1 is the lower limit of the first.
double histogram_limit(int bucket);

}  // namespace tessera
