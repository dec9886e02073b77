// SPDX-License-Identifier: Apache-2.0
// Runs one rank's list of actions: one loop with one switch, for training and evaluation alike.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "framework/nn/module.h"
#include "framework/parallel/pipeline/schedule.h"

namespace tessera {

struct ExecutorRun {
  std::span<const Action> actions;  // of this rank, expanded to units
  std::span<const Batch> batches;   // one a micro-batch
  const StepInfo& step;
  Mode mode = Mode::Train;
  Tensor loss_total = {};                          // F64 [1]; the head adds to it
  std::function<void(int bucket)> reduce = {};     // starts a bucket's reduction; must not block on it
  std::function<void(const Action&)> before = {};  // observes the order of work; may be empty
};

// Holds this rank's units. Between two runs it holds no activations.
class Executor {
 public:
  Executor(Backend& backend, MetricSink& metrics, std::vector<std::unique_ptr<Module>> units)
      : backend_(backend), metrics_(metrics), units_(std::move(units)) {}

  void run(const ExecutorRun& run);
  int unit_count() const { return static_cast<int>(units_.size()); }
  const Module& unit(int index) const { return *units_.at(static_cast<size_t>(index)); }

 private:
  struct MicroBatch {
    Tensor activation;                          // output of the last forward
    Tensor gradient;                            // of that output, or of the unit above's input
    std::vector<std::unique_ptr<Saved>> saved;  // one a unit
  };
  void act(const Action& action, const ExecutorRun& run, MicroBatch& state);

  Backend& backend_;
  MetricSink& metrics_;
  std::vector<std::unique_ptr<Module>> units_;
};

}  // namespace tessera
