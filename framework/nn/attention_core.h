// SPDX-License-Identifier: Apache-2.0
// The attention itself, between the projections: queries, keys and values of this rank's positions and heads
// in, what each query gathered out. On one rank it sees the whole sequence; parallel/sequence has those that
// see a part of it.
#pragma once
#include "framework/nn/context.h"
#include "framework/ops/attention.h"

namespace tessera {

// The query heads of this rank, and how they share key heads: `group` query heads of the model in a row use
// one key head. A rank holds the key heads that its query heads use, and the first and the last of them may
// serve query heads of other ranks too.
struct HeadShare {
  int64_t heads = 1;  // query heads here
  int64_t head_dim = 1;
  int64_t group = 1;       // of the model: query heads for each key head
  int64_t first_head = 0;  // the model's number of the first query head here

  int64_t first_kv_head() const { return first_head / group; }
  int64_t kv_heads() const { return (first_head + heads - 1) / group + 1 - first_kv_head(); }
};

struct AttentionSettings {
  HeadShare share;
  int64_t window = 0;  // positions that a position sees, itself included; 0: all before it
  double dropout = 0;  // of attention weights
  RandomKey dropout_key = {};
};

// How attention crosses the cuts of a sequence (parallel/sequence).
enum class SequenceMode : uint8_t {
  Ring,     // keys and values travel from rank to rank under the compute
  Ulysses,  // whole sequences of some of the heads, by all-to-all; needs query heads that the ranks divide
  Gather,   // keys and values of the whole sequence on every rank, inside the call
};

class AttentionCore {
 public:
  virtual ~AttentionCore() = default;
  // q [n, heads * head_dim], k and v [n, kv_heads * head_dim] for the n positions of the batch here.
  virtual AttentionResult forward(const Tensor& q, const Tensor& k, const Tensor& v,
                                  Context& context) const = 0;
  // Writes dq, dk and dv. The gradients of k and v come from the query heads of this rank only.
  virtual void backward(const Tensor& dy, const Tensor& q, const Tensor& k, const Tensor& v,
                        const AttentionResult& forward, const AttentionGradients& gradients,
                        Context& context) const = 0;
};

class LocalAttention final : public AttentionCore {
 public:
  explicit LocalAttention(const AttentionSettings& settings) : settings_(settings) {}
  AttentionResult forward(const Tensor& q, const Tensor& k, const Tensor& v, Context& context) const override;
  void backward(const Tensor& dy, const Tensor& q, const Tensor& k, const Tensor& v,
                const AttentionResult& forward, const AttentionGradients& gradients,
                Context& context) const override;

 private:
  AttentionSettings settings_;
};

// Scale, window and dropout; mask.document_start and visible_pairs are those of the whole batch, and a core
// that sees a part of it changes them and the offsets. heads and kv_heads are left to shared_attention.
AttentionOptions attention_options(const AttentionSettings& settings, const Context& context);

// ops/attention.h for heads that share keys as `share` says, whatever part of a group lies on this rank.
AttentionResult shared_attention(Backend& backend, const Tensor& q, const Tensor& k, const Tensor& v,
                                 AttentionOptions options, const HeadShare& share);
void shared_attention_backward(Backend& backend, const Tensor& dy, const Tensor& q, const Tensor& k,
                               const Tensor& v, const AttentionResult& forward,
                               const AttentionGradients& gradients, AttentionOptions options,
                               const HeadShare& share);
// The same for attention_add and attention_backward_add.
void shared_attention_add(Backend& backend, const Tensor& q, const Tensor& k, const Tensor& v,
                          const AttentionResult& result, AttentionOptions options, const HeadShare& share);
void shared_attention_backward_add(Backend& backend, const Tensor& dy, const Tensor& q, const Tensor& k,
                                   const Tensor& v, const AttentionResult& forward,
                                   const AttentionGradients& gradients, AttentionOptions options,
                                   const HeadShare& share);

}  // namespace tessera
