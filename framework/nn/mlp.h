// SPDX-License-Identifier: Apache-2.0
// The two-layer perceptron of a block: down(activation(up(x))), or down(activation(gate(x)) * up(x)) with
// gate and up as one fused projection.
#pragma once
#include <memory>

#include "framework/nn/branch.h"
#include "framework/nn/projection.h"

namespace tessera {

struct MlpSettings {
  Activation activation = Activation::GeluTanh;
  bool gated = false;
  bool recompute = false;  // keep the activation's input only, and make its output again in backward
};

class Mlp final : public BranchBody {
 public:
  // up: hidden to intermediate, or to gate and up side by side; down: intermediate to hidden.
  Mlp(std::unique_ptr<Projection> up, std::unique_ptr<Projection> down, const MlpSettings& settings)
      : settings_(settings), up_(std::move(up)), down_(std::move(down)) {}

  Tensor forward(const Tensor& x, Saved& saved, Context& context) const override;
  Tensor backward_input(const Tensor& dy, Saved& saved, Context& context) const override;
  void backward_weight(Saved& saved, Context& context) const override;
  Tensor backward(const Tensor& dy, Saved& saved, Context& context) const override;
  void forward_again(const Tensor& x, Saved& saved, Context& context) const override;
  void set_input(const Tensor& x, Saved& saved) const override;

 private:
  bool keeps_derivative(DType compute) const;
  Tensor activated(const Tensor& x, Saved& saved, Context& context) const;
  Tensor activation_of(const Tensor& u, Context& context) const;
  void restore(const Tensor& u, Saved& saved, Context& context) const;
  Tensor through_activation(const Tensor& da, const Tensor& u, Context& context) const;

  MlpSettings settings_;
  std::unique_ptr<Projection> up_, down_;
};

}  // namespace tessera
