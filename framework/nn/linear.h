// SPDX-License-Identifier: Apache-2.0
// y = x W^T + b with W [out, in]: several logical matrices may lie side by side in W. The weight gradient
// needs x, which may be taken out of `saved` between forward and backward by who can make it again.
#pragma once
#include "framework/nn/projection.h"

namespace tessera {

class Linear final : public Projection {
 public:
  // GradientOnly: the bias is left out of y, and its gradient is made all the same. Where the terms of y's
  // sum lie on several ranks, one of them adds it.
  enum class BiasTerm : uint8_t { Added, GradientOnly };
  // The references must outlive the module; bias may be null.
  Linear(const Weight& weight, const Weight* bias, BiasTerm term = BiasTerm::Added)
      : weight_(weight), bias_(bias), adds_bias_(bias != nullptr && term == BiasTerm::Added) {}

  void backward_weight(Saved& saved, Context& context) const override;
  void forward_again(const Tensor& x, Saved& saved, Context& context) const override;

  Activated forward_activated(const Tensor& x, Saved& saved, Context& context, Activation activation,
                              bool with_derivative) const override;
  Tensor backward_input_times(const Tensor& dy, const Tensor& factor, Saved& saved,
                              Context& context) const override;
  Tensor backward_times(const Tensor& dy, const Tensor& factor, Saved& saved,
                        Context& context) const override;
  void set_input(const Tensor& x, Saved& saved) const override;
  // Before the weight gradient: the input that forward or set_input left, undefined where none is needed.
  Tensor kept_input(const Saved& saved) const;

 private:
  bool needs_input() const { return weight_.trainable; }
  bool needs_gradient() const { return weight_.trainable || (bias_ != nullptr && bias_->trainable); }
  void accumulate(const Tensor& x, const Tensor& dy, Context& context) const;

  const Weight& weight_;
  const Weight* bias_;
  bool adds_bias_;
};

}  // namespace tessera
