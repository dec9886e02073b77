// SPDX-License-Identifier: Apache-2.0
// Final norm, output projection, cross entropy: the last unit. forward returns the unweighted losses [n] and
// adds their weighted sum to Context::loss_total; backward starts from StepInfo::loss_scale and ignores its
// dy. In Decode forward returns the logits [n, vocab].
#pragma once
#include <memory>

#include "framework/nn/linear.h"
#include "framework/nn/norm.h"

namespace tessera {

class LossHead final : public Module {
 public:
  // `output` is [vocab, hidden]: a weight of its own, or the token embedding.
  LossHead(std::unique_ptr<Norm> norm, const Weight& output, double label_smoothing)
      : norm_(std::move(norm)), output_(output, nullptr), label_smoothing_(label_smoothing) {}

  Tensor forward(const Tensor& x, Saved& saved, Context& context) const override;
  Tensor backward_input(const Tensor& ignored, Saved& saved, Context& context) const override;
  void backward_weight(Saved& saved, Context& context) const override;
  Tensor backward(const Tensor& ignored, Saved& saved, Context& context) const override;

 private:
  Tensor logit_gradient(Saved& saved, Context& context) const;

  std::unique_ptr<Norm> norm_;
  Linear output_;
  double label_smoothing_;
};

}  // namespace tessera
