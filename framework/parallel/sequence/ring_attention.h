// SPDX-License-Identifier: Apache-2.0
// Keys and values go from rank to rank around a ring, so that each rank meets those of all others, one rank's
// at a time (Liu, Zaharia and Abbeel 2023, "Ring Attention with Blockwise Transformers"). While a rank works
// on what it has, it sends that on and receives the next: two buffers, whatever the number of ranks. The
// halves of a rank's tokens travel in messages of their own.
//
// Backward sends them around again, and behind them the sums of their gradients, in fp32 (F64): each rank
// adds its terms to what the one before it sent, the last one of the circle sends the sum home.
#pragma once
#include "framework/parallel/sequence/cut_attention.h"

namespace tessera {

class RingAttention final : public CutAttention {
 public:
  using CutAttention::CutAttention;
  AttentionResult forward(const Tensor& q, const Tensor& k, const Tensor& v, Context& context) const override;
  void backward(const Tensor& dy, const Tensor& q, const Tensor& k, const Tensor& v,
                const AttentionResult& forward, const AttentionGradients& gradients,
                Context& context) const override;
};

}  // namespace tessera
