// SPDX-License-Identifier: Apache-2.0
// Each rank gathers the keys and values of the whole sequence for the time of a call (the context parallelism
// of Dubey et al. 2024, "The Llama 3 Herd of Models"). One collective each way and no step to wait for, but
// memory that grows with the whole sequence. Backward gathers again and scatters the sums of the gradients.
#pragma once
#include "framework/parallel/sequence/cut_attention.h"

namespace tessera {

class GatheredAttention final : public CutAttention {
 public:
  using CutAttention::CutAttention;
  AttentionResult forward(const Tensor& q, const Tensor& k, const Tensor& v, Context& context) const override;
  void backward(const Tensor& dy, const Tensor& q, const Tensor& k, const Tensor& v,
                const AttentionResult& forward, const AttentionGradients& gradients,
                Context& context) const override;
};

}  // namespace tessera
