// SPDX-License-Identifier: Apache-2.0
#include "framework/nn/linear.h"

#include "framework/ops/matmul.h"
#include "framework/ops/memory.h"
#include "framework/ops/reduce.h"

namespace tessera {

Projection::Activated Linear::forward_activated(const Tensor& x, Saved& saved, Context& context,
                                                Activation activation, bool with_derivative) const {
  forward_again(x, saved, context);
  Activated result;
  if (with_derivative)
    result.derivative = empty(context.backend, x.dtype(), {x.size(0), weight_.value.size(0)});
  result.y = matmul(context.backend, x, weight_.value,
                    {.transpose_b = true,
                     .bias = adds_bias_ ? bias_->value : Tensor(),
                     .activation = activation,
                     .derivative = result.derivative});
  return result;
}

void Linear::forward_again(const Tensor& x, Saved& saved, Context& context) const {
  if (context.training()) saved.keep(needs_input() ? x : Tensor());
}

Tensor Linear::kept_input(const Saved& saved) const {
  return saved.first();
}

void Linear::set_input(const Tensor& x, Saved& saved) const {
  if (needs_input()) saved.replace(0, x);
}

Tensor Linear::backward_input_times(const Tensor& dy, const Tensor& factor, Saved& saved,
                                    Context& context) const {
  const auto [x] = saved.tensors<1>();
  saved.keep(x, needs_gradient() ? dy : Tensor());
  return matmul(context.backend, dy, weight_.value, {.multiply = factor});
}

void Linear::backward_weight(Saved& saved, Context& context) const {
  const auto [x, dy] = saved.tensors<2>();
  accumulate(x, dy, context);
  saved.clear();
}

// The weight gradient first: then x may be freed before dx is allocated.
Tensor Linear::backward_times(const Tensor& dy, const Tensor& factor, Saved& saved, Context& context) const {
  accumulate(saved.tensors<1>()[0], dy, context);
  saved.clear();
  return matmul(context.backend, dy, weight_.value, {.multiply = factor});
}

void Linear::accumulate(const Tensor& x, const Tensor& dy, Context& context) const {
  if (weight_.trainable) accumulate_matmul(context.backend, dy, x, weight_.gradient, {.transpose_a = true});
  if (bias_ != nullptr && bias_->trainable) column_sum(context.backend, dy, bias_->gradient);
}

}  // namespace tessera
