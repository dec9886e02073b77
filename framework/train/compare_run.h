// SPDX-License-Identifier: Apache-2.0
// One layout of a config as a run on thread ranks that stands still between steps and shows its logical
// tensors, put together on the host from what every rank holds. Copies of an element on several ranks must
// have the same bits, and every element must be somewhere: the parts come from the ranges that the optimizer
// updates, so nothing here knows an axis or a ZeRO stage.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "framework/train/data_feed.h"
#include "framework/train/rank.h"

namespace tessera {

struct StepNumbers {
  double loss = 0, grad_norm = 0;  // as StepResult
  bool finite = true, updated = true;
  double scale = 1;    // of the loss, by which the gradients are already divided here
  int64_t tokens = 0;  // trained, over all ranks
  double learning_rate = 0;
};

struct LogicalTensor {
  size_t index = 0;  // in ModelDefinition::parameters
  const ParameterSpec* spec = nullptr;
  std::vector<float> gradient;  // as it entered clipping, unscaled; empty before the first step and if frozen
  std::vector<float> weight;    // the master
  std::vector<Box> boxes;       // of each rank; without extents where a rank does not hold the tensor
  std::string disagreement;     // what is wrong among the ranks: copies that differ, elements nobody holds
  bool gradients_disagree = false;  // so does the gradient, not only the weight
};

struct CompareHooks {
  // Called on every rank before the first step; may change parameters.
  std::function<void(Rank&)> prepare = {};
  // Changes a rank's micro-batches of a step; must do the same logical thing on every layout.
  std::function<void(int step, DataFeed::GlobalBatch&)> edit = {};
};

class SteppedRun {
 public:
  // `config` is resolved for its own mesh. Config and model must outlive the run. Nothing is allocated
  // before the first show().
  SteppedRun(const RunConfig& config, const ModelDefinition& model, CompareHooks hooks = {});
  ~SteppedRun();  // ends the ranks
  SteppedRun(const SteppedRun&) = delete;
  SteppedRun& operator=(const SteppedRun&) = delete;

  using Visit = std::function<void(const StepNumbers&, LogicalTensor&)>;
  // The first call shows the initial weights, each further one what a step left. Visits every parameter in
  // model order, one at a time. Throws what a rank threw.
  StepNumbers show(const Visit& visit);

 private:
  struct Shared;
  std::unique_ptr<Shared> shared_;
};

}  // namespace tessera
