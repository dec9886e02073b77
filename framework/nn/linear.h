// SPDX-License-Identifier: Apache-2.0
// y = x W^T + b with W [out, in]: several logical matrices may lie side by side in W. The weight gradient
// needs x, which may be taken out of `saved` between forward and backward by who can make it again.
#pragma once
#include "framework/nn/projection.h"

namespace tessera {

class Linear final : public Projection {
 public:
  // The references must outlive the module; bias may be null.
  Linear(const Weight& weight, const Weight* bias) : weight_(weight), bias_(bias) {}

  Tensor forward(const Tensor& x, Saved& saved, Context& context) const override;
  Tensor backward_input(const Tensor& dy, Saved& saved, Context& context) const override;
  void backward_weight(Saved& saved, Context& context) const override;
  Tensor backward(const Tensor& dy, Saved& saved, Context& context) const override;
  void forward_again(const Tensor& x, Saved& saved, Context& context) const override;

  Activated forward_activated(const Tensor& x, Saved& saved, Context& context, Activation activation,
                              bool with_derivative) const override;
  Tensor backward_input_times(const Tensor& dy, const Tensor& factor, Saved& saved,
                              Context& context) const override;
  Tensor backward_times(const Tensor& dy, const Tensor& factor, Saved& saved,
                        Context& context) const override;
  void set_input(const Tensor& x, Saved& saved) const override;

 private:
  bool needs_input() const { return weight_.trainable; }
  bool needs_gradient() const { return weight_.trainable || (bias_ != nullptr && bias_->trainable); }
  void accumulate(const Tensor& x, const Tensor& dy, Context& context) const;

  const Weight& weight_;
  const Weight* bias_;
};

}  // namespace tessera
