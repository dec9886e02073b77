// SPDX-License-Identifier: Apache-2.0
// Final norm, output projection, cross entropy: the last unit. forward returns the unweighted losses [n] and
// adds their weighted sum to Context::loss_total; backward starts from StepInfo::loss_scale and ignores its
// dy. In Decode forward returns the logits [n, vocab].
#pragma once
#include <functional>
#include <memory>

#include "framework/nn/norm.h"
#include "framework/nn/projection.h"
#include "framework/ops/cross_entropy.h"

namespace tessera {

// The classes whose logits this rank makes. Where others have the rest, combine_statistics turns its
// statistics [n, 4] (ops/cross_entropy.h) into those of all classes, in place.
struct LossClasses {
  int64_t count;  // of the model
  int64_t first = 0;
  std::function<void(const Tensor& statistics, Context& context)> combine_statistics = {};
};

class LossHead final : public Module {
 public:
  // `output` gives the logits of the classes here.
  LossHead(std::unique_ptr<Norm> norm, std::unique_ptr<Projection> output, LossClasses classes,
           double label_smoothing)
      : norm_(std::move(norm)),
        output_(std::move(output)),
        classes_(std::move(classes)),
        label_smoothing_(label_smoothing) {}

  Tensor forward(const Tensor& x, Saved& saved, Context& context) const override;
  Tensor backward_input(const Tensor& ignored, Saved& saved, Context& context) const override;
  void backward_weight(Saved& saved, Context& context) const override;
  Tensor backward(const Tensor& ignored, Saved& saved, Context& context) const override;
  // The losses are not counted again.
  void forward_again(const Tensor& x, Saved& saved, Context& context) const override;

 private:
  Tensor logit_gradient(Saved& saved, Context& context) const;

  CrossEntropyOptions options() const;
  Tensor statistics(const Tensor& logits, Saved& saved, Context& context) const;

  std::unique_ptr<Norm> norm_;
  std::unique_ptr<Projection> output_;
  LossClasses classes_;
  double label_smoothing_;
};

}  // namespace tessera
