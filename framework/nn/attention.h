// SPDX-License-Identifier: Apache-2.0
// Causal self-attention inside documents: one fused projection to queries, keys and values, optional norm of
// each query and key head, optional rotary positions, blockwise attention, output projection. Grouped and
// multi-query heads, sliding windows, dropout of attention weights, and a key/value cache for generation.
#pragma once
#include <memory>

#include "framework/nn/attention_core.h"
#include "framework/nn/branch.h"
#include "framework/nn/projection.h"

namespace tessera {

struct SelfAttentionSettings {
  AttentionSettings attention;
  double norm_epsilon = 0;  // of query and key heads
  Tensor rope_table = {};   // undefined: no rotary positions
  bool recompute = false;   // keep q, k, v only, and run the attention itself again in backward
  size_t block = 0;         // entry in a key/value cache
};

struct SelfAttentionParts {
  std::unique_ptr<Projection> qkv;  // to queries, keys and values of this rank's heads, side by side
  std::unique_ptr<AttentionCore> core;
  std::unique_ptr<Projection> output;  // from heads * head_dim
  const Weight* query_norm = nullptr;  // [head_dim], or null, as key_norm
  const Weight* key_norm = nullptr;
};

class SelfAttention final : public BranchBody {
 public:
  SelfAttention(SelfAttentionParts parts, const SelfAttentionSettings& settings);

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
  Tensor attend_cached(const Heads& heads, Context& context) const;
  Tensor attended(const Tensor& x, Saved& saved, Context& context) const;
  Tensor attended_backward(const Tensor& dy, Saved& saved, Context& context) const;
  void restore(Saved& saved, Context& context) const;
  void turn_back(const Heads& raw, const Heads& heads, const Heads& gradient, Context& context) const;

  SelfAttentionSettings settings_;
  std::unique_ptr<Projection> qkv_, output_;
  std::unique_ptr<AttentionCore> core_;
  const Weight *query_norm_, *key_norm_;
};

}  // namespace tessera
