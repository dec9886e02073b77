// SPDX-License-Identifier: Apache-2.0
#include "framework/parallel/sequence/local_queries.h"

#include "framework/ops/copy.h"
#include "framework/ops/memory.h"

namespace tessera {

Tensor empty_stack(Backend& backend, DType dtype, const Tensor& like_k) {
  return empty(backend, dtype, {2 * like_k.size(0), like_k.size(1)});
}

Tensor stacked(Backend& backend, const KeysValues& parts) {
  Tensor stack = empty_stack(backend, parts.k.dtype(), parts.k);
  copy(backend, parts.k, parts_of(stack).k);
  copy(backend, parts.v, parts_of(stack).v);
  return stack;
}

KeysValues parts_of(const Tensor& stack) {
  const int64_t n = stack.size(0) / 2;
  return {.k = stack.narrow(0, n), .v = stack.narrow(n, n)};
}

void check_cut(const Batch& batch, const Communicator& group) {
  CHECK(batch.cut.ranks == group.size() && batch.cut.rank == group.rank(),
        "a batch cut for rank {} of {} met rank {} of the {} ranks of '{}'", batch.cut.rank, batch.cut.ranks,
        group.rank(), group.size(), group.name());
}

Tensor sums_for(Backend& backend, const Tensor& gradient) {
  const DType wide = statistics_type(gradient.dtype());
  if (gradient.dtype() != wide) return zeros(backend, wide, gradient.shape());
  backend.fill(gradient, 0);
  return gradient;
}

void store_sums(Backend& backend, const Tensor& sums, const Tensor& gradient) {
  if (sums.storage() != gradient.storage()) copy(backend, sums, gradient);
}

Tensor LocalQueries::half(const Tensor& x, int half) const {
  const int64_t tokens = context_.batch.rows * context_.batch.cut.chunk_length();
  return x.narrow(half * tokens, tokens);
}

Range LocalQueries::positions(int rank, int half) const {
  const SequenceCut& cut = context_.batch.cut;
  const int64_t first = cut.first_position(rank, half);
  return {first, first + cut.chunk_length()};
}

AttentionOptions LocalQueries::options(int of, const Range& keys) const {
  const Batch& batch = context_.batch;
  const int64_t first = batch.cut.first_position(batch.cut.rank, of), chunk = batch.cut.chunk_length();
  AttentionOptions options = attention_options(settings_, context_);
  options.mask.document_start = half(batch.document_start, of);
  options.mask.query_offset = first;
  options.mask.key_offset = keys.begin;
  const std::span<const int32_t> starts(batch.host_document_start);
  const auto tokens = static_cast<size_t>(batch.rows * chunk);
  options.visible_pairs = visible_pairs(starts.subspan(static_cast<size_t>(of) * tokens, tokens), chunk,
                                        first, keys, settings_.window);
  return options;
}

void LocalQueries::attend(int of, const Tensor& q, const KeysValues& keys, const Range& range,
                          const AttentionResult& result) const {
  const AttentionOptions pairs = options(of, range);
  if (pairs.visible_pairs == 0) return;
  shared_attention_add(context_.backend, half(q, of), keys.k, keys.v,
                       {half(result.y, of), half(result.lse, of)}, pairs, settings_.share);
}

void LocalQueries::attend_backward(int of, const Backward& queries, const KeysValues& keys,
                                   const Range& range, const KeysValues& gradients) const {
  const AttentionOptions pairs = options(of, range);
  if (pairs.visible_pairs == 0) return;
  const AttentionResult& forward = queries.forward;
  shared_attention_backward_add(context_.backend, half(queries.dy, of), half(queries.q, of), keys.k, keys.v,
                                {half(forward.y, of), half(forward.lse, of)},
                                {half(queries.dq, of), gradients.k, gradients.v}, pairs, settings_.share);
}

}  // namespace tessera
