// SPDX-License-Identifier: Apache-2.0
// Measures the single tensors of one step: their norms, their updates and, if asked, their histograms. Each
// logical element is measured by the one rank that answers for it, so the figures do not depend on the mesh
// but for rounding.
#pragma once
#include <map>
#include <vector>

#include "framework/optim/optimizer.h"
#include "framework/train/rank.h"
#include "framework/train/tensor_figures.h"

namespace tessera {

class TensorWatch final : public UpdateWatch {
 public:
  static bool wanted(const LoggingSection& logging, Steps step) {
    return logging.per_tensor > 0 && step.value % logging.per_tensor == 0;
  }

  // Made before the step, which it is handed to. Keeps a copy of one shard at a time during the update.
  TensorWatch(Rank& rank, bool histograms);

  void before(const ParameterShard& shard) override;
  void after(const ParameterShard& shard) override;

  // Collective, after the step: the figures of each trained tensor of the model, in its order, the same on
  // every rank. `scale` is that of the loss, which the gradients still have.
  std::vector<TensorFigures> finish(double scale);

 private:
  // F64 sums over a tensor's elements, side by side for each tensor.
  enum Sum : int64_t { kWeightSquares, kGradientSquares, kUpdateSquares, kWeights, kGradients, kSums };
  Tensor sum(size_t tensor, Sum which) const;
  // Buckets of the weights of a tensor, and beside them those of its gradients.
  Tensor counts(size_t tensor, bool of_gradients) const;
  void measure();

  struct Watched {
    size_t tensor;  // in the model's order
    ParameterShard part;
  };

  Rank& rank_;
  std::vector<std::string> names_;
  std::map<const Parameter*, Watched> parts_;
  Tensor sums_, counts_;  // counts: undefined without histograms
  Tensor before_;         // of the shard that is being updated
};

}  // namespace tessera
