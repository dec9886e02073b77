// SPDX-License-Identifier: Apache-2.0
#include "framework/parallel/sequence/gathered_attention.h"

#include "framework/ops/copy.h"
#include "framework/ops/memory.h"
#include "framework/parallel/sequence/local_queries.h"
#include "framework/parallel/sequence/whole_rows.h"

namespace tessera {
namespace {

// Of all ranks, as whole rows.
KeysValues gathered(Communicator& group, const Batch& batch, Backend& backend, const KeysValues& own) {
  Tensor stack = stacked(backend, own);
  const DType dtype = stack.dtype();
  const int64_t stack_rows = stack.size(0), width = stack.size(1);
  const Tensor all = empty(backend, dtype, {group.size() * stack_rows, width});
  Stream& stream = backend.compute_stream();
  group.all_gather(stack, all, stream).wait_in_turn(stream);
  stack = {};
  const KeysValues rows{empty_rows(backend, batch, dtype, width), empty_rows(backend, batch, dtype, width)};
  for (int rank = 0; rank < group.size(); ++rank) {
    const KeysValues tokens = parts_of(all.narrow(rank * stack_rows, stack_rows));
    put_in_rows(backend, batch, rank, tokens.k, rows.k);
    put_in_rows(backend, batch, rank, tokens.v, rows.v);
  }
  return rows;
}

// The sums over ranks of the gradients of whole rows, this rank's part of them.
void scatter_gradients(Communicator& group, const Batch& batch, Backend& backend, const KeysValues& rows,
                       const KeysValues& own) {
  const Tensor stack = empty_stack(backend, own.k.dtype(), own.k);
  const int64_t stack_rows = stack.size(0);
  const Tensor all = empty(backend, stack.dtype(), {group.size() * stack_rows, stack.size(1)});
  for (int rank = 0; rank < group.size(); ++rank) {
    const KeysValues tokens = parts_of(all.narrow(rank * stack_rows, stack_rows));
    take_from_rows(backend, batch, rank, rows.k, tokens.k);
    take_from_rows(backend, batch, rank, rows.v, tokens.v);
  }
  Stream& stream = backend.compute_stream();
  group.reduce_scatter(all, stack, Reduce::Sum, stream).wait_in_turn(stream);
  copy(backend, parts_of(stack).k, own.k);
  copy(backend, parts_of(stack).v, own.v);
}

}  // namespace

AttentionResult GatheredAttention::forward(const Tensor& q, const Tensor& k, const Tensor& v,
                                           Context& context) const {
  check_cut(context.batch, group_);
  const LocalQueries local(settings_, context);
  const AttentionResult result = nothing_attended(context.backend, q, settings_.share.heads);
  const KeysValues rows = gathered(group_, context.batch, context.backend, {k, v});
  for (int half = 0; half < local.halves(); ++half)
    local.attend(half, q, rows, {0, context.batch.cut.padded_length()}, result);
  return {converted(context.backend, result.y, q.dtype()), result.lse};
}

void GatheredAttention::backward(const Tensor& dy, const Tensor& q, const Tensor& k, const Tensor& v,
                                 const AttentionResult& forward, const AttentionGradients& gradients,
                                 Context& context) const {
  check_cut(context.batch, group_);
  Backend& backend = context.backend;
  const LocalQueries local(settings_, context);
  const Tensor dq = sums_for(backend, gradients.dq);
  KeysValues rows = gathered(group_, context.batch, backend, {k, v});
  const DType wide = statistics_type(k.dtype());
  const KeysValues sums{zeros(backend, wide, rows.k.shape()), zeros(backend, wide, rows.v.shape())};
  const LocalQueries::Backward inputs{.dy = dy, .q = q, .forward = forward, .dq = dq};
  for (int half = 0; half < local.halves(); ++half)
    local.attend_backward(half, inputs, rows, {0, context.batch.cut.padded_length()}, sums);
  rows = {};
  store_sums(backend, dq, gradients.dq);
  scatter_gradients(group_, context.batch, backend, sums, {gradients.dk, gradients.dv});
}

}  // namespace tessera
