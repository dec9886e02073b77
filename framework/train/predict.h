// SPDX-License-Identifier: Apache-2.0
// Predicts what a rank will need by building the real rank on the shape backend and running one real step
// of it: no memory of its size, no data, and milliseconds for the largest model.
#pragma once
#include <string>
#include <vector>

#include "framework/config/run_config.h"
#include "framework/nn/model.h"
#include "framework/parallel/pipeline/costs.h"
#include "framework/planner/memory.h"

namespace tessera {

// The plan of rank 0 of `ranks`, whose kernels run `threads` threads. `config` is resolved for `ranks`.
MemoryPlan predict_memory(const RunConfig& config, const ModelDefinition& model, int ranks, int threads);

// What the work of each unit of the model costs one rank for one micro-batch: operations, as if they were
// seconds, and bytes. What a schedule repeats is not in it.
std::vector<WorkCost> predict_unit_costs(const RunConfig& config, const ModelDefinition& model);

// Under parallel.schedule = "auto": puts the lists that the search finds into schedule_text, so that all who
// ask later need not search again. Otherwise it does nothing.
void resolve_auto_schedule(RunConfig& config, const ModelDefinition& model);

// Under activation_checkpointing.mode = "budget": puts "full" with the smallest number of blocks that brings
// the predicted peak of a step under memory_budget_gb in its place, or "none" where nothing needs to be
// recomputed, so that the resolved config says what is done. Throws Error(Usage) when no number does.
void resolve_memory_budget(RunConfig& config, const ModelDefinition& model, int ranks, int threads);

// What `train --check` prints. `ranks_here` of the ranks would run on this machine.
std::string check_report(RunConfig config, const ModelDefinition& model, int ranks, int ranks_here,
                         bool json);

// Throws Error(Usage) when `ranks_here` ranks on this machine would need more memory than is free.
void refuse_when_too_large(const RunConfig& config, const ModelDefinition& model, int ranks, int ranks_here);

}  // namespace tessera
