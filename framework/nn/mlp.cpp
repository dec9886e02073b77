// SPDX-License-Identifier: Apache-2.0
// Saved: {the activation's derivative} or {u, the activation's input}; child kUp keeps x, child kDown keeps
// the activation's output unless it is made again.
#include "framework/nn/mlp.h"

#include "framework/nn/recompute.h"
#include "framework/ops/activation.h"

namespace tessera {
namespace {
constexpr size_t kUp = 0, kDown = 1;
}  // namespace

// A plain fp32 mlp takes activation and derivative from the epilogue of the product, and one factor in the
// epilogue of the backward. That equals the separate calls bit for bit. In a 16-bit type it would not (they
// round u first), and a rounded derivative is worse than one made from u: there u is kept.
bool Mlp::keeps_derivative(DType compute) const {
  return !settings_.gated && !settings_.recompute && compute == statistics_type(compute);
}

Tensor Mlp::forward(const Tensor& x, Saved& saved, Context& context) const {
  const Tensor a = activated(x, saved, context);
  Tensor y = down_->forward(a, saved.child(kDown), context);
  if (context.training() && settings_.recompute) down_->set_input({}, saved.child(kDown));
  return y;
}

void Mlp::forward_again(const Tensor& x, Saved& saved, Context& context) const {
  down_->forward_again(activated(x, saved, context), saved.child(kDown), context);
  if (settings_.recompute) down_->set_input({}, saved.child(kDown));
}

void Mlp::set_input(const Tensor& x, Saved& saved) const {
  up_->set_input(x, saved.child(kUp));
}

// The input of the down projection.
Tensor Mlp::activated(const Tensor& x, Saved& saved, Context& context) const {
  Saved& up_saved = saved.child(kUp);
  const Activation kind = settings_.activation;
  if (!settings_.gated && !context.training())
    return up_->forward_activated(x, up_saved, context, kind, false).y;
  if (keeps_derivative(x.dtype())) {
    const auto [a, derivative] = up_->forward_activated(x, up_saved, context, kind, true);
    saved.keep(derivative);
    return a;
  }
  const Tensor u = up_->forward(x, up_saved, context);
  if (context.training()) saved.keep(u);
  return activation_of(u, context);
}

Tensor Mlp::activation_of(const Tensor& u, Context& context) const {
  return settings_.gated ? gated_activation(context.backend, settings_.activation, u)
                         : activation(context.backend, settings_.activation, u);
}

// Makes the activation's output again where it was not kept.
void Mlp::restore(const Tensor& u, Saved& saved, Context& context) const {
  if (!settings_.recompute) return;
  const RecomputeScope scope(context);
  down_->set_input(activation_of(u, context), saved.child(kDown));
}

// The gradient of u, in the memory of u itself or of da: neither is needed any longer.
Tensor Mlp::through_activation(const Tensor& da, const Tensor& u, Context& context) const {
  if (settings_.gated) {
    gated_activation_backward_into(context.backend, settings_.activation, da, u, u);
    return u;
  }
  activation_backward_into(context.backend, settings_.activation, da, u, da);
  return da;
}

Tensor Mlp::backward_input(const Tensor& dy, Saved& saved, Context& context) const {
  auto [kept] = saved.tensors<1>();
  saved.keep();
  if (keeps_derivative(dy.dtype())) {
    const Tensor du = down_->backward_input_times(dy, kept, saved.child(kDown), context);
    kept = {};
    return up_->backward_input(du, saved.child(kUp), context);
  }
  restore(kept, saved, context);
  Tensor da = down_->backward_input(dy, saved.child(kDown), context);
  const Tensor du = through_activation(da, kept, context);
  kept = da = {};
  return up_->backward_input(du, saved.child(kUp), context);
}

void Mlp::backward_weight(Saved& saved, Context& context) const {
  saved.tensors<0>();
  down_->backward_weight(saved.child(kDown), context);
  up_->backward_weight(saved.child(kUp), context);
  saved.clear();
}

Tensor Mlp::backward(const Tensor& dy, Saved& saved, Context& context) const {
  auto [kept] = saved.tensors<1>();
  saved.keep();
  Tensor du;
  if (keeps_derivative(dy.dtype())) {
    du = down_->backward_times(dy, kept, saved.child(kDown), context);
  } else {
    restore(kept, saved, context);
    const Tensor da = down_->backward(dy, saved.child(kDown), context);
    du = through_activation(da, kept, context);
  }
  kept = {};
  Tensor dx = up_->backward(du, saved.child(kUp), context);
  saved.clear();
  return dx;
}

}  // namespace tessera
