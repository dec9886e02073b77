// SPDX-License-Identifier: Apache-2.0
// Goes through the lists of all ranks side by side, each in its order, as the executors of the ranks will.
#pragma once
#include <vector>

#include "framework/parallel/pipeline/schedule.h"

namespace tessera {

// step(rank, at) does the next action of a rank, `at` in its list, or returns false when it must wait for
// another rank.
// Returns how far each rank came: short of the end of its list only when ranks wait for each other for ever.
template <class Step>
std::vector<size_t> walk(const Schedule& schedule, Step&& step) {
  std::vector<size_t> next(schedule.by_rank.size(), 0);
  for (bool progress = true; progress;) {
    progress = false;
    for (size_t rank = 0; rank < next.size(); ++rank) {
      const auto& actions = schedule.by_rank[rank];
      const size_t before = next[rank];
      while (next[rank] < actions.size() && step(static_cast<int>(rank), next[rank])) ++next[rank];
      progress |= next[rank] > before;
    }
  }
  return next;
}

}  // namespace tessera
