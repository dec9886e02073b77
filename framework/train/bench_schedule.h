// SPDX-License-Identifier: Apache-2.0
// Schedules on thread ranks whose work is a sleep of known length: how near the simulator comes to what the
// executor and its messages take. Sleeps need no core, so that any number of ranks runs at once.
#pragma once
#include <string>
#include <vector>

namespace tessera {

struct ScheduleBenchOptions {
  int ranks = 4, microbatches = 8;
  double forward = 0.1, backward_input = 0.1, backward_weight = 0.1;  // seconds of a rank's whole work
  bool recompute = false;
};

struct ScheduleTiming {
  std::string name;
  int stages = 1;
  double simulated = 0, measured = 0;  // seconds of a step
};

// Every named form, interleaved with two stages a rank, and "auto" straight and on a V.
std::vector<ScheduleTiming> bench_schedules(const ScheduleBenchOptions& options);

}  // namespace tessera
