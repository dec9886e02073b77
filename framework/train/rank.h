// SPDX-License-Identifier: Apache-2.0
// Everything that one rank computes with, assembled from a config: its parameters, units, optimizer and
// step. Trainer, benchmark, evaluation and the memory prediction all build the same rank, on whichever
// backend they hold.
#pragma once
#include <memory>

#include "framework/comm/groups.h"
#include "framework/config/run_config.h"
#include "framework/dataset/host_batch.h"
#include "framework/mesh/mesh.h"
#include "framework/nn/model.h"
#include "framework/optim/learning_rate.h"
#include "framework/train/metrics.h"
#include "framework/train/step.h"

namespace tessera {

DType compute_type(const PrecisionSection& precision);
LearningRateOptions learning_rate_options(const RunConfig& config);
OptimizerOptions optimizer_options(const OptimizerSection& section);
MeshSizes mesh_sizes(const ParallelSection& parallel);
// What one rank may copy for an asynchronous save.
int64_t snapshot_limit_bytes(const CheckpointSection& checkpoint);

class Rank {
 public:
  // `config` is resolved for the world's size; it and `model` outlive the rank. Allocates all model and
  // optimizer state on `backend`; call initialise_parameters() or load a checkpoint before the first step.
  // Collective over `world`.
  Rank(const RunConfig& config, const ModelDefinition& model, Communicator& world, Backend& backend);

  void initialise_parameters();
  // A micro-batch of this rank's rows, as its modules take it.
  Batch upload(const HostBatch& whole);

  // True on one rank for each row of the global batch: where counts over ranks count it.
  bool counts_rows() const;
  // True on one of the ranks that make the same losses.
  bool counts_loss() const;
  // The ranks that hold the same range of a parameter as this one, itself included, in rank order. The first
  // answers for it.
  std::vector<int> holders(const ParameterSpec& spec) const;

  // Of the shards, the parts whose elements this rank answers for: each logical element that is trained lies
  // in one part of one rank.
  std::vector<ParameterShard> own_shards() const;

  // The shards have new values (initialised, loaded): whole values follow.
  void gather_values();
  // Returns when whole values are those of the last update.
  void wait_for_values() { gatherer_->wait_all(); }

  const ModelDefinition& model() const { return model_; }
  const Layout& layout() const { return layout_; }
  int number() const { return world_.rank(); }
  int data_rank() const { return data_rank_; }
  Backend& backend() { return backend_; }
  Communicator& world() { return world_; }
  Groups& groups() { return *groups_; }
  Communicator& shard_group() { return *shard_group_; }      // one copy of sharded state
  Communicator& replica_group() { return *replica_group_; }  // copies of this rank's shard
  ParameterStore& store() { return *store_; }                // of the parameters that this rank's stages use
  FlatBuffers& buffers() { return *buffers_; }
  Executor& executor() { return *executor_; }
  Optimizer& optimizer() { return *optimizer_; }
  LossScaler& scaler() { return scaler_; }
  ParameterGatherer& gatherer() { return *gatherer_; }
  TrainStep& step() { return *step_; }
  MetricSums& observed() { return observed_; }
  int64_t sent_bytes() const;  // by this rank, to all others, so far

 private:
  // Of a rank among those that share its gradients.
  int shard_of(int rank) const;
  std::unique_ptr<Communicator> subgroup_of_data(bool same_shard, std::string_view name);

  std::vector<int> stages_of_units() const;
  std::unique_ptr<Communicator> tied_group();

  const RunConfig& config_;
  const ModelDefinition& model_;
  Communicator& world_;
  Backend& backend_;
  Layout layout_;
  StagePlan plan_;
  int pipeline_rank_;
  int data_rank_;
  std::unique_ptr<Groups> groups_;
  std::unique_ptr<ParameterStore> store_;
  int shards_ = 1;  // ranks that one copy of sharded state lies on
  std::unique_ptr<Communicator> shard_group_, replica_group_, tied_group_;
  std::unique_ptr<FlatBuffers> buffers_;
  std::unique_ptr<ParameterGatherer> gatherer_;
  MetricSums observed_;
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<Optimizer> optimizer_;
  LossScaler scaler_;
  std::unique_ptr<TrainStep> step_;
};

}  // namespace tessera
