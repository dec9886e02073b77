// SPDX-License-Identifier: Apache-2.0
// All-to-all before and after an attention of whole sequences (Jacobs et al. 2023, "DeepSpeed Ulysses"): for
// its time each rank has all positions of its share of the heads instead of its share of the positions of all
// heads. Backward repeats the exchange, so that nothing of whole sequences is kept. Key heads that several
// ranks use go to each of them; the rank of the position adds the gradients that come back, in fp32 (F64).
#pragma once
#include "framework/parallel/sequence/cut_attention.h"

namespace tessera {

// Throws ExitCode::Usage when the ranks do not divide the query heads.
void check_ulysses_heads(const HeadShare& share, int ranks);

class UlyssesAttention final : public CutAttention {
 public:
  using CutAttention::CutAttention;
  AttentionResult forward(const Tensor& q, const Tensor& k, const Tensor& v, Context& context) const override;
  void backward(const Tensor& dy, const Tensor& q, const Tensor& k, const Tensor& v,
                const AttentionResult& forward, const AttentionGradients& gradients,
                Context& context) const override;
};

}  // namespace tessera
