// SPDX-License-Identifier: Apache-2.0
#include "framework/nn/loss_head.h"

namespace tessera {
namespace {
constexpr size_t kHeadNorm = 0, kHeadOutput = 1;
}  // namespace

Tensor LossHead::forward(const Tensor& x, Saved& saved, Context& context) const {
  const Tensor logits =
      output_->forward(norm_->forward(x, saved.child(kHeadNorm), context), saved.child(kHeadOutput), context);
  if (context.mode == Mode::Decode) return logits;
  const Batch& batch = context.batch;
  const Tensor stats = statistics(logits, saved, context);
  return cross_entropy_loss(context.backend, stats, batch.targets, batch.weights, context.loss_total,
                            options(), batch.sources);
}

void LossHead::forward_again(const Tensor& x, Saved& saved, Context& context) const {
  const Tensor hidden = norm_->forward(x, saved.child(kHeadNorm), context);
  statistics(output_->forward(hidden, saved.child(kHeadOutput), context), saved, context);
}

Tensor LossHead::statistics(const Tensor& logits, Saved& saved, Context& context) const {
  const Tensor stats = cross_entropy_stats(context.backend, logits, context.batch.targets, options());
  if (classes_.combine_statistics) classes_.combine_statistics(stats, context);
  if (context.training()) saved.keep(logits, stats);
  return stats;
}

CrossEntropyOptions LossHead::options() const {
  return {.classes = classes_.count, .label_smoothing = label_smoothing_, .first_class = classes_.first};
}

// Turns the kept logits into their gradient, in the same memory.
Tensor LossHead::logit_gradient(Saved& saved, Context& context) const {
  const auto [logits, stats] = saved.tensors<2>();
  saved.keep();
  const Batch& batch = context.batch;
  cross_entropy_backward(context.backend, logits, stats, batch.targets, batch.weights,
                         context.step.loss_scale, options());
  return logits;
}

Tensor LossHead::backward_input(const Tensor&, Saved& saved, Context& context) const {
  const Tensor dlogits = logit_gradient(saved, context);
  const Tensor dnorm = output_->backward_input(dlogits, saved.child(kHeadOutput), context);
  return norm_->backward_input(dnorm, saved.child(kHeadNorm), context);
}

void LossHead::backward_weight(Saved& saved, Context& context) const {
  saved.tensors<0>();
  output_->backward_weight(saved.child(kHeadOutput), context);
  norm_->backward_weight(saved.child(kHeadNorm), context);
  saved.clear();
}

Tensor LossHead::backward(const Tensor&, Saved& saved, Context& context) const {
  const Tensor dnorm = output_->backward(logit_gradient(saved, context), saved.child(kHeadOutput), context);
  Tensor dx = norm_->backward(dnorm, saved.child(kHeadNorm), context);
  saved.clear();
  return dx;
}

}  // namespace tessera
