// SPDX-License-Identifier: Apache-2.0
// Saved: {qkv, y, lse}; child kQkv keeps x, child kOutput keeps y. qkv is kept as projected when heads are
// normalised (norm and rotation are made again in backward), else as rotated in place.
#include "framework/nn/attention.h"

#include "framework/nn/recompute.h"
#include "framework/ops/copy.h"
#include "framework/ops/memory.h"
#include "framework/ops/norm.h"

namespace tessera {
namespace {
constexpr size_t kQkv = 0, kOutput = 1;
}  // namespace

SelfAttention::SelfAttention(SelfAttentionParts parts, const SelfAttentionSettings& settings)
    : settings_(settings),
      qkv_(std::move(parts.qkv)),
      output_(std::move(parts.output)),
      core_(std::move(parts.core)),
      query_norm_(parts.query_norm),
      key_norm_(parts.key_norm) {
  CHECK((query_norm_ == nullptr) == (key_norm_ == nullptr), "queries and keys are normalised together");
}

Tensor SelfAttention::forward(const Tensor& x, Saved& saved, Context& context) const {
  const Tensor y = attended(x, saved, context);
  Tensor result = output_->forward(y, saved.child(kOutput), context);
  if (context.training() && settings_.recompute) output_->set_input({}, saved.child(kOutput));
  return result;
}

void SelfAttention::forward_again(const Tensor& x, Saved& saved, Context& context) const {
  output_->forward_again(attended(x, saved, context), saved.child(kOutput), context);
  if (settings_.recompute) output_->set_input({}, saved.child(kOutput));
}

void SelfAttention::set_input(const Tensor& x, Saved& saved) const {
  qkv_->set_input(x, saved.child(kQkv));
}

// Everything before the output projection.
Tensor SelfAttention::attended(const Tensor& x, Saved& saved, Context& context) const {
  const Tensor qkv = qkv_->forward(x, saved.child(kQkv), context);
  if (query_norm_ == nullptr && settings_.rope_table.defined()) {
    const Heads heads = slices(qkv);
    for (const Tensor& part : {heads.q, heads.k})
      rope(context.backend, part, settings_.rope_table, context.batch.positions,
           settings_.attention.share.head_dim);
  }
  const Heads heads = prepared(qkv, context);
  if (context.mode == Mode::Decode) return attend_cached(heads, context);
  const AttentionResult result = core_->forward(heads.q, heads.k, heads.v, context);
  if (context.training()) {
    if (settings_.recompute)
      saved.keep(qkv, Tensor(), Tensor());
    else
      saved.keep(qkv, result.y, result.lse);
  }
  return result.y;
}

SelfAttention::Heads SelfAttention::slices(const Tensor& qkv) const {
  const HeadShare& share = settings_.attention.share;
  const int64_t q = share.heads * share.head_dim, kv = share.kv_heads() * share.head_dim;
  return {.q = qkv.columns(0, q), .k = qkv.columns(q, kv), .v = qkv.columns(q + kv, kv)};
}

// Queries and keys from a kept qkv. Without head norms they are slices of it.
SelfAttention::Heads SelfAttention::prepared(const Tensor& qkv, Context& context) const {
  Heads heads = slices(qkv);
  if (query_norm_ == nullptr) return heads;
  const Tensor buffer = empty(context.backend, qkv.dtype(), {qkv.size(0), heads.q.size(1) + heads.k.size(1)});
  const Tensor q = buffer.columns(0, heads.q.size(1)), k = buffer.columns(q.size(1), heads.k.size(1));
  const double epsilon = settings_.norm_epsilon;
  heads.query_inv_rms = rms_norm_into(context.backend, heads.q, query_norm_->value, epsilon, q);
  heads.key_inv_rms = rms_norm_into(context.backend, heads.k, key_norm_->value, epsilon, k);
  if (settings_.rope_table.defined())
    for (const Tensor& part : {q, k})
      rope(context.backend, part, settings_.rope_table, context.batch.positions,
           settings_.attention.share.head_dim);
  heads.q = q;
  heads.k = k;
  return heads;
}

// Adds the keys and values of these positions to the cache and attends to all that are in it.
Tensor SelfAttention::attend_cached(const Heads& heads, Context& context) const {
  CHECK(context.cache != nullptr && settings_.block < context.cache->blocks.size() && context.batch.rows == 1,
        "generation needs a key/value cache with an entry for block {}, and one row", settings_.block);
  const KeyValueCache::Entry& entry = context.cache->blocks[settings_.block];
  const int64_t before = context.cache->length, added = heads.k.size(0);
  CHECK(before + added <= entry.k.size(0), "the key/value cache holds {} positions, {} are needed",
        entry.k.size(0), before + added);
  copy(context.backend, heads.k, entry.k.narrow(before, added));
  copy(context.backend, heads.v, entry.v.narrow(before, added));
  AttentionOptions cached = attention_options(settings_.attention, context);
  cached.mask.query_offset = before;
  cached.visible_pairs = context.batch.visible_pairs(settings_.attention.window, before);
  return shared_attention(context.backend, heads.q, entry.k.narrow(0, before + added),
                          entry.v.narrow(0, before + added), cached, settings_.attention.share)
      .y;
}

// Runs the attention again where only q, k and v were kept.
void SelfAttention::restore(Saved& saved, Context& context) const {
  const auto [qkv, kept_y, kept_lse] = saved.tensors<3>();
  if (kept_y.defined()) return;
  const RecomputeScope scope(context);
  const Heads heads = prepared(qkv, context);
  const AttentionResult result = core_->forward(heads.q, heads.k, heads.v, context);
  saved.keep(qkv, result.y, result.lse);
  output_->set_input(result.y, saved.child(kOutput));
}

Tensor SelfAttention::backward_input(const Tensor& dy, Saved& saved, Context& context) const {
  restore(saved, context);
  const Tensor dqkv =
      attended_backward(output_->backward_input(dy, saved.child(kOutput), context), saved, context);
  return qkv_->backward_input(dqkv, saved.child(kQkv), context);
}

void SelfAttention::backward_weight(Saved& saved, Context& context) const {
  saved.tensors<0>();
  output_->backward_weight(saved.child(kOutput), context);
  qkv_->backward_weight(saved.child(kQkv), context);
  saved.clear();
}

Tensor SelfAttention::backward(const Tensor& dy, Saved& saved, Context& context) const {
  restore(saved, context);
  const Tensor dqkv = attended_backward(output_->backward(dy, saved.child(kOutput), context), saved, context);
  Tensor dx = qkv_->backward(dqkv, saved.child(kQkv), context);
  saved.clear();
  return dx;
}

// The gradient of qkv from that of the attention's output; frees what was kept for it.
Tensor SelfAttention::attended_backward(const Tensor& dy, Saved& saved, Context& context) const {
  const auto [qkv, y, lse] = saved.tensors<3>();
  saved.keep();
  const Heads heads = prepared(qkv, context);
  Tensor dqkv = empty(context.backend, qkv.dtype(), qkv.shape());
  const Heads gradient = slices(dqkv);
  core_->backward(dy, heads.q, heads.k, heads.v, {y, lse}, {gradient.q, gradient.k, gradient.v}, context);
  turn_back(slices(qkv), heads, gradient, context);
  return dqkv;
}

// Rotation and head norms backward, in place on the gradients of q and k.
void SelfAttention::turn_back(const Heads& raw, const Heads& heads, const Heads& gradient,
                              Context& context) const {
  Backend& backend = context.backend;
  if (settings_.rope_table.defined())
    for (const Tensor& part : {gradient.q, gradient.k})
      rope_backward(backend, part, settings_.rope_table, context.batch.positions,
                    settings_.attention.share.head_dim);
  if (query_norm_ == nullptr) return;
  rms_norm_backward_into(backend, gradient.q, raw.q, query_norm_->value, heads.query_inv_rms,
                         query_norm_->gradient, gradient.q);
  rms_norm_backward_into(backend, gradient.k, raw.k, key_norm_->value, heads.key_inv_rms, key_norm_->gradient,
                         gradient.k);
}

}  // namespace tessera
