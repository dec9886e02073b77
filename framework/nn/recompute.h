// SPDX-License-Identifier: Apache-2.0
// Recomputation: drop what forward left and run it again in backward. The bits are the same, because random
// numbers are functions of logical position and decisions are pinned in Saved.
#pragma once
#include <memory>

#include "framework/nn/module.h"

namespace tessera {

// While it lives, the context and the backend's counter know that work is repeated. Scopes may nest.
class RecomputeScope {
 public:
  explicit RecomputeScope(Context& context)
      : context_(context),
        context_before_(context.recomputing),
        flops_before_(context.backend.flops().recomputing) {
    context.recomputing = true;
    context.backend.flops().recomputing = true;
  }
  ~RecomputeScope() {
    context_.recomputing = context_before_;
    context_.backend.flops().recomputing = flops_before_;
  }
  RecomputeScope(const RecomputeScope&) = delete;
  RecomputeScope& operator=(const RecomputeScope&) = delete;

 private:
  Context& context_;
  bool context_before_, flops_before_;
};

// Keeps the input of a module, and what the module pins, in place of everything that its forward leaves.
class RecomputeModule final : public Module {
 public:
  explicit RecomputeModule(std::unique_ptr<Module> inner) : inner_(std::move(inner)) {}
  Tensor forward(const Tensor& x, Saved& saved, Context& context) const override;
  Tensor backward_input(const Tensor& dy, Saved& saved, Context& context) const override;
  void backward_weight(Saved& saved, Context& context) const override;
  Tensor backward(const Tensor& dy, Saved& saved, Context& context) const override;

 private:
  void restore(Saved& saved, Context& context) const;

  std::unique_ptr<Module> inner_;
};

}  // namespace tessera
