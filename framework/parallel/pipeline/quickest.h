// SPDX-License-Identifier: Apache-2.0
// Keeps the best of schedules that are tried one after another.
#pragma once
#include <optional>

#include "framework/parallel/pipeline/simulate.h"

namespace tessera {

class Quickest {
 public:
  // In the world of `costs`, which outlive this, and within `bytes` of live activations on each rank.
  Quickest(const CostModel& costs, int64_t bytes) : costs_(costs), bytes_(bytes) {}

  // Among schedules as quick, the one whose ranks are done soonest after their own start; among these, the
  // first.
  void consider(Schedule candidate) {
    const Simulation simulation = simulate(candidate, costs_);
    const double time = simulation.seconds() + 1e-3 * simulation.longest_rank();
    if (simulation.peak_bytes() > bytes_ || (best_ && time >= time_)) return;
    best_ = std::move(candidate);
    time_ = time;
  }
  const std::optional<Schedule>& best() const { return best_; }

 private:
  const CostModel& costs_;
  int64_t bytes_;
  std::optional<Schedule> best_;
  double time_ = 0;  // of the best
};

}  // namespace tessera
