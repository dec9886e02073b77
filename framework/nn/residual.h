// SPDX-License-Identifier: Apache-2.0
// y = x + dropout(body(norm(x))): one branch of a pre-norm block. The norm's output is not kept: it is made
// again from what the norm keeps when the body's weight gradient needs it.
#pragma once
#include <memory>

#include "framework/nn/branch.h"
#include "framework/nn/norm.h"
#include "framework/ops/elementwise.h"

namespace tessera {

// Dropout of a hidden state as a function of logical position; the same mask in forward and backward.
struct HiddenDropout {
  double probability = 0;
  RandomKey key = {};

  bool active(const Context& context) const { return context.training() && probability > 0; }
  // x * mask / (1 - probability), plus residual where it is defined.
  Tensor apply(const Tensor& x, Context& context, const Tensor& residual = {}) const;
};

class ResidualBranch final : public Module {
 public:
  ResidualBranch(std::unique_ptr<Norm> norm, std::unique_ptr<BranchBody> body, const HiddenDropout& dropout)
      : norm_(std::move(norm)), body_(std::move(body)), dropout_(dropout) {}

  Tensor forward(const Tensor& x, Saved& saved, Context& context) const override;
  Tensor backward_input(const Tensor& dy, Saved& saved, Context& context) const override;
  void backward_weight(Saved& saved, Context& context) const override;
  Tensor backward(const Tensor& dy, Saved& saved, Context& context) const override;
  void forward_again(const Tensor& x, Saved& saved, Context& context) const override;

 private:
  Tensor add_skip(Tensor dnorm, const Tensor& dy, Saved& saved, Context& context) const;

  std::unique_ptr<Norm> norm_;
  std::unique_ptr<BranchBody> body_;
  HiddenDropout dropout_;
};

// Modules one after another.
class Sequential final : public Module {
 public:
  explicit Sequential(std::vector<std::unique_ptr<Module>> modules) : modules_(std::move(modules)) {}

  Tensor forward(const Tensor& x, Saved& saved, Context& context) const override;
  Tensor backward_input(const Tensor& dy, Saved& saved, Context& context) const override;
  void backward_weight(Saved& saved, Context& context) const override;
  Tensor backward(const Tensor& dy, Saved& saved, Context& context) const override;
  void forward_again(const Tensor& x, Saved& saved, Context& context) const override;

 private:
  std::vector<std::unique_ptr<Module>> modules_;
};

}  // namespace tessera
