// SPDX-License-Identifier: Apache-2.0
// The speed and memory of training steps on made-up tokens: what `tessera bench step` prints.
#pragma once
#include <cstdint>

#include "framework/comm/communicator.h"
#include "framework/config/run_config.h"
#include "framework/nn/model.h"

namespace tessera {

struct StepBenchmark {
  double step_seconds = 0;  // median of the timed steps
  double fastest_step_seconds = 0;
  double tokens_per_second = 0;   // at the median
  double matmul_peak = 0;         // operations per second, summed over ranks, measured beside
  double matmul_peak_share = 0;   // model operations per second / matmul_peak
  double flops_per_token = 0;     // model operations
  int64_t peak_memory_bytes = 0;  // largest rank's allocator peak
  int64_t sent_bytes = 0;         // in a step, by the rank that sends most
};

// Runs `warmup` steps, then `steps` timed ones. Collective; every rank returns the same figures.
StepBenchmark bench_step(const RunConfig& config, const ModelDefinition& model, Communicator& world,
                         Backend& backend, int warmup, int steps);

}  // namespace tessera
