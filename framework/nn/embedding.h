// SPDX-License-Identifier: Apache-2.0
// Token rows, plus learned position rows, plus dropout: the first unit. It reads the batch and ignores its
// input; it has no input gradient.
#pragma once
#include "framework/nn/module.h"
#include "framework/nn/residual.h"

namespace tessera {

class Embedding final : public Module {
 public:
  // positions may be null.
  Embedding(const Weight& tokens, const Weight* positions, const HiddenDropout& dropout)
      : tokens_(tokens), positions_(positions), dropout_(dropout) {}

  Tensor forward(const Tensor& ignored, Saved& saved, Context& context) const override;
  Tensor backward_input(const Tensor& dy, Saved& saved, Context& context) const override;  // undefined
  void backward_weight(Saved& saved, Context& context) const override;

 private:
  const Weight& tokens_;
  const Weight* positions_;
  HiddenDropout dropout_;
};

}  // namespace tessera
