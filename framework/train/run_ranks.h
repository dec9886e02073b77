// SPDX-License-Identifier: Apache-2.0
// Starts the ranks of a run: this process is one of a launcher's, or its ranks are threads of it. A rank
// that fails ends all others, and the first cause is what the caller sees.
#pragma once
#include <functional>

#include "framework/train/launch.h"
#include "framework/train/trainer.h"

namespace tessera {

struct RunRanksOptions {
  int ranks = 1;
  LaunchInfo launch;
  bool threads_anyway = false;  // more thread ranks than the machine has room for
  std::vector<int> nodes = {};  // of thread ranks that stand for those of several nodes: InProcessWorld
  // Whether a stop was asked for and not yet agreed on: then waits for other ranks become short.
  std::function<bool()> hurried = {};
};

// Thread ranks that are started without --threads-anyway: 4 a core.
int most_thread_ranks();

// Throws Error(Usage) when the launch does not fit: another number of processes than `ranks`, a launch of
// several processes in a build without MPI, too many thread ranks.
void check_launch(const RunRanksOptions& options);

// What one rank does; called on every rank at once. The backend belongs to the rank.
using RankMain = std::function<void(Communicator& world, Backend& backend)>;
void run_ranks(const RunConfig& config, const RunRanksOptions& options, const RankMain& rank_main);

// The whole of a training run: log, signals, ranks.
TrainOutcome run_training(const TrainRequest& request, RunRanksOptions options);

}  // namespace tessera
