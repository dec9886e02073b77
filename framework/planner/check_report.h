// SPDX-License-Identifier: Apache-2.0
// What `train --check` prints: mesh, batch arithmetic, parameters, memory of a rank, work of a step. One set
// of facts, a text for people and one JSON object for scripts; both are stable enough to compare.
#pragma once
#include <optional>
#include <string>

#include "framework/config/run_config.h"
#include "framework/planner/memory.h"

namespace tessera {

struct CheckFacts {
  const RunConfig& config;  // resolved for `ranks`
  const ModelDefinition& model;
  int ranks = 1;
  std::string mesh;  // "tp=1 sp=1 dp=2 pp=1"
  const MemoryPlan& memory;
  int threads_per_rank = 1;
  int64_t free_bytes = 0;  // of this machine
  int ranks_here = 1;      // that would share it
  int recomputed_blocks = 0;
};

// Operations of one step on all ranks, without recomputation and rows of padding.
double model_flops_per_step(const CheckFacts& facts);

std::string check_text(const CheckFacts& facts);
std::string check_json(const CheckFacts& facts);

}  // namespace tessera
