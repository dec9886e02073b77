// SPDX-License-Identifier: Apache-2.0
// Everything that one rank computes with, assembled from a config: its parameters, units, optimizer and
// step. Trainer, benchmark, evaluation and the memory prediction all build the same rank, on whichever
// backend they hold.
#pragma once
#include <memory>

#include "framework/comm/communicator.h"
#include "framework/config/run_config.h"
#include "framework/mesh/mesh.h"
#include "framework/nn/model.h"
#include "framework/optim/learning_rate.h"
#include "framework/train/metrics.h"
#include "framework/train/step.h"

namespace tessera {

DType compute_type(const PrecisionSection& precision);
LearningRateOptions learning_rate_options(const RunConfig& config);
MeshSizes mesh_sizes(const ParallelSection& parallel);

class Rank {
 public:
  // `config` is resolved for the world's size. Allocates all model and optimizer state on `backend`; call
  // initialise_parameters() or load a checkpoint before the first step. Collective over `world`.
  Rank(const RunConfig& config, const ModelDefinition& model, Communicator& world, Backend& backend);

  void initialise_parameters();

  const Layout& layout() const { return layout_; }
  int data_rank() const { return data_rank_; }
  Backend& backend() { return backend_; }
  Communicator& world() { return world_; }
  ParameterStore& store() { return *store_; }
  FlatBuffers& buffers() { return *buffers_; }
  Executor& executor() { return *executor_; }
  Optimizer& optimizer() { return *optimizer_; }
  LossScaler& scaler() { return scaler_; }
  TrainStep& step() { return *step_; }
  MetricSums& observed() { return observed_; }

 private:
  const RunConfig& config_;
  Communicator& world_;
  Backend& backend_;
  Layout layout_;
  int data_rank_;
  std::unique_ptr<Communicator> data_group_;
  std::unique_ptr<ParameterStore> store_;
  std::unique_ptr<FlatBuffers> buffers_;
  MetricSums observed_;
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<Optimizer> optimizer_;
  LossScaler scaler_;
  std::unique_ptr<TrainStep> step_;
};

}  // namespace tessera
