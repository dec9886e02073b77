// SPDX-License-Identifier: Apache-2.0
#include "framework/parallel/tensor/embedding.h"

#include "framework/ops/embedding.h"

namespace tessera {

Tensor Embedding::forward(const Tensor&, Saved& saved, Context& context) const {
  Backend& backend = context.backend;
  const Batch& batch = context.batch;
  const Tensor rows = embedding(backend, tables_.tokens.value, batch.tokens, tables_.first_token);
  Tensor y = boundary_.sum(rows, context).wait(context);
  if (tables_.positions != nullptr)
    accumulate_embedding(backend, tables_.positions->value, batch.hidden_positions, y);
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
  Backend& backend = context.backend;
  const Batch& batch = context.batch;
  if (dropout_.active(context)) dy = dropout_.apply(dy, context);
  if (tables_.positions != nullptr && tables_.positions->trainable)
    embedding_backward(backend, dy, batch.hidden_positions, tables_.positions->gradient);
  if (!tables_.tokens.trainable) return;
  const Tensor whole = boundary_.gather(dy, context).wait(context);
  embedding_backward(backend, whole, batch.tokens, tables_.tokens.gradient, tables_.first_token);
}

}  // namespace tessera
