// SPDX-License-Identifier: Apache-2.0
// Causal self-attention inside documents: one fused projection to queries, keys and values, optional norm of
// each query and key head, optional rotary positions, blockwise attention, output projection. Grouped and
// multi-query heads, sliding windows, dropout of attention weights, and a key/value cache for generation.
#pragma once
#include "framework/nn/branch.h"
#include "framework/nn/linear.h"
#include "framework/ops/attention.h"

namespace tessera {

struct AttentionSettings {
  int64_t heads = 1, kv_heads = 1, head_dim = 1;
  int64_t window = 0;  // positions that a position sees, itself included; 0: all before it
  double dropout = 0;  // of attention weights
  RandomKey dropout_key = {};
  double norm_epsilon = 0;  // of query and key heads
  Tensor rope_table = {};   // undefined: no rotary positions
  bool recompute = false;   // keep q, k, v only, and run the attention itself again in backward
  size_t block = 0;         // entry in a key/value cache
};

struct AttentionWeights {
  const Weight& qkv;          // [(heads + 2 kv_heads) * head_dim, hidden]
  const Weight* qkv_bias;     // null: none
  const Weight& output;       // [hidden, heads * head_dim]
  const Weight* output_bias;  // null: none
  const Weight* query_norm;   // [head_dim], or null, as key_norm
  const Weight* key_norm;
};

class SelfAttention final : public BranchBody {
 public:
  SelfAttention(const AttentionWeights& weights, const AttentionSettings& settings);

  Tensor forward(const Tensor& x, Saved& saved, Context& context) const override;
  Tensor backward_input(const Tensor& dy, Saved& saved, Context& context) const override;
  void backward_weight(Saved& saved, Context& context) const override;
  Tensor backward(const Tensor& dy, Saved& saved, Context& context) const override;
  void forward_again(const Tensor& x, Saved& saved, Context& context) const override;
  void set_input(const Tensor& x, Saved& saved) const override;

 private:
  struct Heads {
    Tensor q, k, v;                               // as the attention takes them
    Tensor query_inv_rms = {}, key_inv_rms = {};  // with head norms
  };
  Heads slices(const Tensor& qkv) const;
  Heads prepared(const Tensor& qkv, Context& context) const;
  AttentionOptions options(const Context& context) const;
  Tensor attend_cached(const Heads& heads, Context& context) const;
  Tensor core(const Tensor& x, Saved& saved, Context& context) const;
  Tensor core_backward(const Tensor& dy, Saved& saved, Context& context) const;
  void restore(Saved& saved, Context& context) const;
  void turn_back(const Heads& raw, const Heads& heads, const Heads& gradient, Context& context) const;

  AttentionSettings settings_;
  Linear qkv_, output_;
  const Weight *query_norm_, *key_norm_;
};

}  // namespace tessera
