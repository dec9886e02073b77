// SPDX-License-Identifier: Apache-2.0
#include "framework/nn/attention_core.h"

#include <cmath>

#include "framework/ops/copy.h"
#include "framework/ops/memory.h"

namespace tessera {
namespace {

// Query heads [first, first + count) of this rank that use one key head.
struct HeadRun {
  int64_t first, count, kv_head;
};

std::vector<HeadRun> runs_of(const HeadShare& share) {
  std::vector<HeadRun> runs;
  for (int64_t head = 0; head < share.heads; ++head) {
    const int64_t kv_head = (share.first_head + head) / share.group - share.first_kv_head();
    if (runs.empty() || runs.back().kv_head != kv_head) runs.push_back({head, 0, kv_head});
    ++runs.back().count;
  }
  return runs;
}

bool even(const std::vector<HeadRun>& runs) {
  for (const HeadRun& run : runs)
    if (run.count != runs.front().count) return false;
  return true;
}

void set_heads(AttentionOptions& options, int64_t first, int64_t heads, int64_t kv_heads,
               const HeadShare& share) {
  options.heads = heads;
  options.kv_heads = kv_heads;
  options.dropout.head_offset = share.first_head + first;
}

// Columns of the heads of a run, and of its key head.
Tensor queries(const Tensor& x, const HeadRun& run, int64_t width) {
  return x.columns(run.first * width, run.count * width);
}
Tensor keys(const Tensor& x, const HeadRun& run, int64_t width) {
  return x.columns(run.kv_head * width, width);
}

Tensor packed(Backend& backend, const Tensor& x) {
  const Tensor copied = empty(backend, x.dtype(), x.shape());
  copy(backend, x, copied);
  return copied;
}

}  // namespace

AttentionOptions attention_options(const AttentionSettings& settings, const Context& context) {
  const Batch& batch = context.batch;
  AttentionOptions options{
      .rows = batch.rows,
      .scale = 1 / std::sqrt(static_cast<double>(settings.share.head_dim)),
      .mask = {.document_start = batch.document_start, .window = settings.window},
      .visible_pairs = batch.visible_pairs(settings.window),
  };
  if (context.training() && settings.dropout > 0)
    options.dropout = {.probability = settings.dropout,
                       .key = settings.dropout_key,
                       .step = context.step.step_number,
                       .row_ids = batch.row_ids};
  return options;
}

AttentionResult shared_attention(Backend& backend, const Tensor& q, const Tensor& k, const Tensor& v,
                                 AttentionOptions options, const HeadShare& share) {
  const std::vector<HeadRun> runs = runs_of(share);
  if (even(runs)) {
    set_heads(options, 0, share.heads, share.kv_heads(), share);
    return attention(backend, q, k, v, options);
  }
  AttentionResult whole{empty(backend, q.dtype(), q.shape()),
                        empty(backend, statistics_type(q.dtype()), {q.size(0), share.heads})};
  for (const HeadRun& run : runs) {
    set_heads(options, run.first, run.count, 1, share);
    const AttentionResult part =
        attention(backend, queries(q, run, share.head_dim), keys(k, run, share.head_dim),
                  keys(v, run, share.head_dim), options);
    copy(backend, part.y, queries(whole.y, run, share.head_dim));
    copy(backend, part.lse, queries(whole.lse, run, 1));
  }
  return whole;
}

void shared_attention_backward(Backend& backend, const Tensor& dy, const Tensor& q, const Tensor& k,
                               const Tensor& v, const AttentionResult& forward,
                               const AttentionGradients& gradients, AttentionOptions options,
                               const HeadShare& share) {
  const std::vector<HeadRun> runs = runs_of(share);
  if (even(runs)) {
    set_heads(options, 0, share.heads, share.kv_heads(), share);
    attention_backward(backend, dy, q, k, v, forward, gradients, options);
    return;
  }
  const int64_t width = share.head_dim;
  for (const HeadRun& run : runs) {
    set_heads(options, run.first, run.count, 1, share);
    attention_backward(
        backend, packed(backend, queries(dy, run, width)), queries(q, run, width), keys(k, run, width),
        keys(v, run, width),
        {packed(backend, queries(forward.y, run, width)), packed(backend, queries(forward.lse, run, 1))},
        {queries(gradients.dq, run, width), keys(gradients.dk, run, width), keys(gradients.dv, run, width)},
        options);
  }
}

void shared_attention_add(Backend& backend, const Tensor& q, const Tensor& k, const Tensor& v,
                          const AttentionResult& result, AttentionOptions options, const HeadShare& share) {
  const std::vector<HeadRun> runs = runs_of(share);
  if (even(runs)) {
    set_heads(options, 0, share.heads, share.kv_heads(), share);
    return attention_add(backend, q, k, v, result, options);
  }
  const int64_t width = share.head_dim;
  for (const HeadRun& run : runs) {
    set_heads(options, run.first, run.count, 1, share);
    attention_add(backend, queries(q, run, width), keys(k, run, width), keys(v, run, width),
                  {queries(result.y, run, width), queries(result.lse, run, 1)}, options);
  }
}

void shared_attention_backward_add(Backend& backend, const Tensor& dy, const Tensor& q, const Tensor& k,
                                   const Tensor& v, const AttentionResult& forward,
                                   const AttentionGradients& gradients, AttentionOptions options,
                                   const HeadShare& share) {
  const std::vector<HeadRun> runs = runs_of(share);
  if (even(runs)) {
    set_heads(options, 0, share.heads, share.kv_heads(), share);
    return attention_backward_add(backend, dy, q, k, v, forward, gradients, options);
  }
  const int64_t width = share.head_dim;
  for (const HeadRun& run : runs) {
    set_heads(options, run.first, run.count, 1, share);
    attention_backward_add(
        backend, queries(dy, run, width), queries(q, run, width), keys(k, run, width), keys(v, run, width),
        {queries(forward.y, run, width), queries(forward.lse, run, 1)},
        {queries(gradients.dq, run, width), keys(gradients.dk, run, width), keys(gradients.dv, run, width)},
        options);
  }
}

AttentionResult LocalAttention::forward(const Tensor& q, const Tensor& k, const Tensor& v,
                                        Context& context) const {
  return shared_attention(context.backend, q, k, v, attention_options(settings_, context), settings_.share);
}

void LocalAttention::backward(const Tensor& dy, const Tensor& q, const Tensor& k, const Tensor& v,
                              const AttentionResult& forward, const AttentionGradients& gradients,
                              Context& context) const {
  shared_attention_backward(context.backend, dy, q, k, v, forward, gradients,
                            attention_options(settings_, context), settings_.share);
}

}  // namespace tessera
