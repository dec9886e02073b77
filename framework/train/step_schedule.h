// SPDX-License-Identifier: Apache-2.0
// The order of work of a step, from the config's words: a generator, then the passes that the layout needs.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "framework/config/run_config.h"
#include "framework/nn/model.h"
#include "framework/parallel/data/flat_buffers.h"
#include "framework/parallel/pipeline/costs.h"
#include "framework/parallel/pipeline/schedule.h"
#include "framework/parallel/pipeline/stages.h"

namespace tessera {

// The stages of a model on the pipeline of the config: as parallel.stage_layout says, or such that the rank
// with most work has as little as can be. "auto" puts one stage on each rank, or two that make a V, where
// there are blocks enough, no stage_layout, and the step then takes less time. `config` is resolved.
StagePlan stage_plan(const RunConfig& config, const ModelDefinition& model);

// What ZeRO divides, and among how many ranks: stage Off where there is nobody to divide with.
struct ZeroPlan {
  ZeroStage stage = ZeroStage::Off;
  int shards = 1;
  bool gradients_leave = false;  // after each micro-batch
};
ZeroPlan zero_plan(const ParallelSection& parallel);

struct StepSchedule {
  std::string form = "1f1b";  // parallel.schedule
  std::string text = {};      // of the file that parallel.schedule names, or empty
  int virtual_stages = 1;
  bool together = false;                 // collectives within work: forms that hide them under other work do
  int live_activations = 1;              // of "auto": at most, in micro-batches of the rank that keeps most
  bool recompute_stages = false;         // activation_checkpointing.mode "stage"
  bool offload = false;                  // activation_checkpointing.offload
  bool gather_parameters = false;        // ZeRO stage 3
  bool reduce_every_microbatch = false;  // gradients leave after each
};
StepSchedule step_schedule(const RunConfig& config);

// Those of the plan's stages from those of the model's units.
CostModel stage_costs(const StagePlan& plan, std::span<const WorkCost> unit_costs);
// Of the stages of a step, as they are predicted, where its schedule depends on them.
CostModel step_costs(const RunConfig& config, const StagePlan& plan, const ModelDefinition& model);

// Whole stages, without messages: the form, the file, or what "auto" finds, which is a function of its
// arguments alone and so the same on every rank.
Schedule plain_schedule(const StepSchedule& options, const StagePlan& plan, const CostModel& costs,
                        int microbatches);

// The same with the forwards that run again.
Schedule whole_stage_schedule(const StepSchedule& options, const StagePlan& plan, const CostModel& costs,
                              int microbatches);

// A list of whole stages with its messages, taken apart, and with what leaves memory and comes back: as the
// list has it, or else where that is a gain, if it is asked for.
Schedule unit_schedule(const StagePlan& plan, const StepSchedule& options, const Schedule& whole);

// The lists of all ranks, with all else that the layout needs put into one of whole stages, and proved; the
// reductions are those of `rank`, whose buckets are given. The unit of a ReduceGradients or ReduceTied is a
// number in `buckets`.
Schedule training_schedule(const StagePlan& plan, const StepSchedule& options, const Schedule& whole,
                           int rank, std::span<const Bucket> buckets);
// Forwards only.
Schedule evaluation_schedule(const StagePlan& plan, bool gather_parameters, int microbatches);

}  // namespace tessera
