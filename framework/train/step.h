// SPDX-License-Identifier: Apache-2.0
// One optimizer step of one rank: the schedule over all micro-batches with gradient buckets reduced on the
// way, one agreement on loss, norm and finiteness, then the update or an agreed skip. The same code runs on
// the shape backend to predict memory.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "framework/comm/communicator.h"
#include "framework/optim/loss_scale.h"
#include "framework/optim/optimizer.h"
#include "framework/parallel/data/flat_buffers.h"
#include "framework/parallel/data/gradient_reducer.h"
#include "framework/parallel/data/parameter_gatherer.h"
#include "framework/parallel/pipeline/executor.h"
#include "framework/train/step_schedule.h"

namespace tessera {

struct StepParts {
  Backend& backend;
  Communicator& world;
  GradientGroups groups;
  ParameterStore& store;
  Executor& executor;
  FlatBuffers& buffers;
  ParameterGatherer& gatherer;
  Optimizer& optimizer;
  LossScaler& scaler;
};

struct StepOptions {
  double grad_clip = 1;
  GradientReducerOptions reduction;
  StepSchedule schedule = {};
  CostModel costs = CostModel({});          // of the plan's stages, where the schedule depends on them
  bool counts_loss = true;                  // one of the ranks that make the same losses
  std::vector<ParameterShard> norm_shards;  // what this rank adds to the norm: each element on one rank
  int64_t sources = 1;                      // of the data
};

struct StepResult {
  double loss = 0;       // per trained token of the global batch
  double grad_norm = 0;  // of the gradients before clipping, unscaled
  bool finite = true;
  bool updated = true;                        // false when the update was skipped
  double scale = 1;                           // that this step was computed with
  std::vector<double> source_loss_sums = {};  // of the tokens of each source, when there are several
};

// F64 zeros for Context::loss_total: the sum of all losses and, when there are several sources, that of each.
Tensor loss_totals(Backend& backend, int64_t sources);

class TrainStep {
 public:
  TrainStep(StepParts parts, StepOptions options);

  // `batches` are this rank's micro-batches, the same number on every rank; `weight_sum` is that of the
  // global batch, which decides with the batches alone what the gradients are. A weight sum of 0 gives no
  // update. After it returns the gradients are those that entered clipping, times the loss scale. `watch`, if
  // any, sees the update of each shard.
  StepResult run(std::span<const Batch> batches, double weight_sum, Steps step, double learning_rate,
                 UpdateWatch* watch = nullptr);

  // Weighted loss sum of forwards over `batches`; changes no state. Not yet summed over ranks.
  double evaluate(std::span<const Batch> batches);

  // The first trainable parameter of this rank with a gradient that is not finite, or "".
  std::string first_non_finite() const;

 private:
  const std::vector<Action>& actions_for(size_t microbatches);
  void prepare(const Action& action);
  void collective(const Action& action);

  StepParts parts_;
  StepOptions options_;
  GradientReducer reducer_;
  Tensor step_number_, loss_scale_, loss_total_;
  size_t planned_microbatches_ = 0;
  std::vector<Action> actions_;
};

}  // namespace tessera
