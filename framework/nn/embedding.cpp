// SPDX-License-Identifier: Apache-2.0
#include "framework/nn/embedding.h"

#include "framework/ops/embedding.h"

namespace tessera {

Tensor Embedding::forward(const Tensor&, Saved& saved, Context& context) const {
  Tensor y = embedding(context.backend, tokens_.value, context.batch.tokens);
  if (positions_ != nullptr)
    accumulate_embedding(context.backend, positions_->value, context.batch.positions, y);
  if (context.training()) saved.keep();
  return dropout_.active(context) ? dropout_.apply(y, context) : y;
}

Tensor Embedding::backward_input(const Tensor& dy, Saved& saved, Context&) const {
  saved.tensors<0>();
  saved.keep(dy);
  return {};
}

void Embedding::backward_weight(Saved& saved, Context& context) const {
  auto [dy] = saved.tensors<1>();
  saved.clear();
  if (dropout_.active(context)) dy = dropout_.apply(dy, context);
  if (tokens_.trainable) embedding_backward(context.backend, dy, context.batch.tokens, tokens_.gradient);
  if (positions_ != nullptr && positions_->trainable)
    embedding_backward(context.backend, dy, context.batch.positions, positions_->gradient);
}

}  // namespace tessera
