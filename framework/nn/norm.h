// SPDX-License-Identifier: Apache-2.0
// Normalisation of each row. The backward makes both gradients in one pass, so the gain's and bias's are
// added by backward_input already. The output is cheap to make again from what forward keeps: a user of it
// need not keep it.
#pragma once
#include <memory>

#include "framework/nn/module.h"

namespace tessera {

class Norm : public Module {
 public:
  // What forward returned, bit for bit, while `saved` is not cleared: before and after backward_input.
  virtual Tensor output_again(const Saved& saved, Context& context) const = 0;
  void backward_weight(Saved& saved, Context&) const override { saved.clear(); }
};

class LayerNorm final : public Norm {
 public:
  LayerNorm(const Weight& gain, const Weight& bias, double epsilon)
      : gain_(gain), bias_(bias), epsilon_(epsilon) {}
  Tensor forward(const Tensor& x, Saved& saved, Context& context) const override;
  Tensor backward_input(const Tensor& dy, Saved& saved, Context& context) const override;
  Tensor output_again(const Saved& saved, Context& context) const override;

 private:
  const Weight &gain_, &bias_;
  double epsilon_;
};

class RmsNorm final : public Norm {
 public:
  RmsNorm(const Weight& gain, double epsilon) : gain_(gain), epsilon_(epsilon) {}
  Tensor forward(const Tensor& x, Saved& saved, Context& context) const override;
  Tensor backward_input(const Tensor& dy, Saved& saved, Context& context) const override;
  Tensor output_again(const Saved& saved, Context& context) const override;

 private:
  const Weight& gain_;
  double epsilon_;
};

}  // namespace tessera
