// SPDX-License-Identifier: Apache-2.0
#include "framework/nn/recompute.h"

namespace tessera {

Tensor RecomputeModule::forward(const Tensor& x, Saved& saved, Context& context) const {
  Tensor y = inner_->forward(x, saved.child(0), context);
  saved.child(0).clear_for_recompute();
  if (context.training()) saved.keep(x);
  return y;
}

// Runs the forward again; from here on `saved` is as without recomputation.
void RecomputeModule::restore(Saved& saved, Context& context) const {
  const auto [x] = saved.tensors<1>();
  saved.keep();
  const RecomputeScope scope(context);
  inner_->forward_again(x, saved.child(0), context);
}

Tensor RecomputeModule::backward_input(const Tensor& dy, Saved& saved, Context& context) const {
  restore(saved, context);
  return inner_->backward_input(dy, saved.child(0), context);
}

void RecomputeModule::backward_weight(Saved& saved, Context& context) const {
  saved.tensors<0>();
  inner_->backward_weight(saved.child(0), context);
  saved.clear();
}

Tensor RecomputeModule::backward(const Tensor& dy, Saved& saved, Context& context) const {
  restore(saved, context);
  Tensor dx = inner_->backward(dy, saved.child(0), context);
  saved.clear();
  return dx;
}

}  // namespace tessera
