// SPDX-License-Identifier: Apache-2.0
// Starts the ranks of an in-process world, one thread each, and brings back the first failure.
#pragma once
#include <functional>

#include "framework/comm/in_process/in_process.h"

namespace tessera {

struct ThreadRankOptions {
  Patience patience = 600;      // in a wait for other ranks
  double grace_s = 10;          // after a failure, for the other ranks to return
  std::vector<int> nodes = {};  // as InProcessWorld takes them
};

// Calls body(world, rank) on a thread for each rank and returns when all have returned. When one throws, the
// waits of all others throw too, and the exception that came first is thrown again here,
// of several ranks with "rank N: " before its text (but for usage errors, which all ranks see alike). A rank
// that still has not returned `grace_s` later cannot be stopped from outside: the process prints the cause
// and the rank and ends with exit code 5.
void run_thread_ranks(int ranks, const ThreadRankOptions& options,
                      const std::function<void(InProcessWorld& world, int rank)>& body);

}  // namespace tessera
