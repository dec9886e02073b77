// SPDX-License-Identifier: Apache-2.0
// What a schedule will take: times by going through the lists with the costs of the work, bytes by counting.
// Each rank works through its list in order. A message takes costs.message once the sender has reached its
// send and the receiver its receive, one after another between two ranks, beside the work of both; a list
// without messages behaves as if every receive were early. Collectives run beside the work, one at a time,
// and so do transfers of the rank's store: work waits for what comes back to it, and the rank, at the end of
// the work behind an O, until that is written.
#pragma once
#include <vector>

#include "framework/parallel/pipeline/costs.h"
#include "framework/parallel/pipeline/schedule.h"

namespace tessera {

// Planned or measured.
struct TimedAction {
  Action action;
  double start = 0, end = 0;  // seconds
};

struct RankUse {
  double start = 0;             // of its first work
  double end = 0;               // of its last work or collective
  double busy = 0;              // working, recomputation too
  int64_t peak_bytes = 0;       // live activations (live_bytes.h)
  int64_t offloaded_bytes = 0;  // that leave for the store, and come back
};

struct Simulation {
  std::vector<RankUse> ranks;
  std::vector<std::vector<TimedAction>> work;  // by rank, in order

  // All ranks start at 0 and agree on the norm at the end of a step.
  double seconds() const;
  double longest_rank() const;  // the longest time from a rank's own start to its own end
  int64_t peak_bytes() const;   // of the rank that holds most
  // Idle share of ranks * seconds().
  double bubble() const;
  // Idle share when no rank waits for others between steps, so that the longest rank sets the pace: the
  // bubble rate that the zero bubble papers print. Not reached with a norm that all ranks agree on.
  double bubble_without_agreement() const;
};

// Throws when ranks wait for each other for ever; validate() says which and why.
Simulation simulate(const Schedule& schedule, const CostModel& costs);

}  // namespace tessera
