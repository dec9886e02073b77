// SPDX-License-Identifier: Apache-2.0
#include "framework/nn/residual.h"

namespace tessera {
namespace {
constexpr size_t kNorm = 0, kBody = 1;
}  // namespace

Tensor HiddenDropout::apply(const Tensor& x, Context& context, const Tensor& residual) const {
  return dropout(context.backend, x,
                 {.probability = probability,
                  .key = key,
                  .step = context.step.step_number,
                  .row_index = context.batch.token_index},
                 residual);
}

Tensor ResidualBranch::forward(const Tensor& x, Saved& saved, Context& context) const {
  Tensor y = body_->forward(norm_->forward(x, saved.child(kNorm), context), saved.child(kBody), context);
  if (context.training()) body_->set_input({}, saved.child(kBody));
  if (dropout_.active(context)) return dropout_.apply(y, context, x);
  add_into(context.backend, y, x, y);
  return y;
}

void ResidualBranch::forward_again(const Tensor& x, Saved& saved, Context& context) const {
  body_->forward_again(norm_->forward(x, saved.child(kNorm), context), saved.child(kBody), context);
  body_->set_input({}, saved.child(kBody));
}

Tensor ResidualBranch::backward_input(const Tensor& dy, Saved& saved, Context& context) const {
  const Tensor dbody = dropout_.active(context) ? dropout_.apply(dy, context) : dy;
  return add_skip(body_->backward_input(dbody, saved.child(kBody), context), dy, saved, context);
}

void ResidualBranch::backward_weight(Saved& saved, Context& context) const {
  body_->set_input(norm_->output_again(saved.child(kNorm), context), saved.child(kBody));
  body_->backward_weight(saved.child(kBody), context);
  norm_->backward_weight(saved.child(kNorm), context);
  saved.clear();
}

Tensor ResidualBranch::backward(const Tensor& dy, Saved& saved, Context& context) const {
  body_->set_input(norm_->output_again(saved.child(kNorm), context), saved.child(kBody));
  const Tensor dbody = dropout_.active(context) ? dropout_.apply(dy, context) : dy;
  Tensor dx = add_skip(body_->backward(dbody, saved.child(kBody), context), dy, saved, context);
  saved.clear();
  return dx;
}

// dL/dx from the gradient of the norm's output, and of the path around the branch.
Tensor ResidualBranch::add_skip(Tensor dnorm, const Tensor& dy, Saved& saved, Context& context) const {
  Tensor dx = norm_->backward_input(dnorm, saved.child(kNorm), context);
  add_into(context.backend, dx, dy, dx);
  return dx;
}

Tensor Sequential::forward(const Tensor& x, Saved& saved, Context& context) const {
  Tensor y = x;
  for (size_t i = 0; i < modules_.size(); ++i) y = modules_[i]->forward(y, saved.child(i), context);
  return y;
}

void Sequential::forward_again(const Tensor& x, Saved& saved, Context& context) const {
  Tensor y = x;
  for (size_t i = 0; i < modules_.size(); ++i) {
    if (i + 1 == modules_.size())
      modules_[i]->forward_again(y, saved.child(i), context);
    else
      y = modules_[i]->forward(y, saved.child(i), context);
  }
}

Tensor Sequential::backward_input(const Tensor& dy, Saved& saved, Context& context) const {
  Tensor dx = dy;
  for (size_t i = modules_.size(); i-- > 0;) dx = modules_[i]->backward_input(dx, saved.child(i), context);
  return dx;
}

void Sequential::backward_weight(Saved& saved, Context& context) const {
  for (size_t i = modules_.size(); i-- > 0;) modules_[i]->backward_weight(saved.child(i), context);
  saved.clear();
}

Tensor Sequential::backward(const Tensor& dy, Saved& saved, Context& context) const {
  Tensor dx = dy;
  for (size_t i = modules_.size(); i-- > 0;) dx = modules_[i]->backward(dx, saved.child(i), context);
  saved.clear();
  return dx;
}

}  // namespace tessera
