// SPDX-License-Identifier: Apache-2.0
// Matrix products, checked and counted.
#pragma once
#include "framework/ops/backend.h"

namespace tessera {

struct MatmulOptions {
  bool transpose_a = false, transpose_b = false;
  Tensor bias = {};                          // [n]
  Activation activation = Activation::None;  // applied after the bias
  Tensor derivative = {};                    // [m, n]: receives activation'
  Tensor multiply = {};                      // [m, n]: the result is multiplied by it
};

// Returns epilogue(op(a) op(b)) in the type of a.
Tensor matmul(Backend& backend, const Tensor& a, const Tensor& b, const MatmulOptions& options = {});
// c += op(a) op(b); c has the type of a or the accumulator type.
void accumulate_matmul(Backend& backend, const Tensor& a, const Tensor& b, const Tensor& c,
                       const MatmulOptions& options = {});

}  // namespace tessera
