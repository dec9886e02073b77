// SPDX-License-Identifier: Apache-2.0
// Element by element: constants, sums of two tensors, dropout and initial values.
#pragma once
#include "framework/ops/backend.h"

namespace tessera {

void fill(Backend& backend, const Tensor& x, double value);
Tensor add(Backend& backend, const Tensor& a, const Tensor& b);
void add_into(Backend& backend, const Tensor& a, const Tensor& b, const Tensor& y);  // y may be a or b
void scale(Backend& backend, const Tensor& x, double factor);                        // in place

// The mask is a function of (key, step, row_index, column_offset + column): forward, repeated forward and
// backward call this with the same options and get the same mask.
struct DropoutOptions {
  double probability = 0;
  RandomKey key;
  Tensor step;       // I64 [1]
  Tensor row_index;  // I64 [n]
  int64_t column_offset = 0;
};
// x * mask / (1 - probability), plus residual where it is defined.
Tensor dropout(Backend& backend, const Tensor& x, const DropoutOptions& options, const Tensor& residual = {});

// Element (r, c) = std * normal(key, first_index + r * row_pitch + c), the same on every mesh.
void init_normal(Backend& backend, const Tensor& value, RandomKey key, double std, int64_t first_index,
                 int64_t row_pitch);

}  // namespace tessera
