// SPDX-License-Identifier: Apache-2.0
// Time and bytes of an all-reduce: what `tessera bench comm` prints.
#pragma once
#include <cstdint>
#include <vector>

#include "framework/comm/communicator.h"
#include "framework/ops/backend.h"

namespace tessera {

struct AllReduceBenchmark {
  AllReduceAlgorithm algorithm;
  bool chosen = false;  // auto stands for it at this size on these nodes
  int64_t bytes = 0;    // of the data
  double seconds = 0;   // of the slowest rank: median and fastest of the timed calls
  double fastest_seconds = 0;
  int64_t busiest_rank_bytes = 0;  // counted: sent by the rank that sends most, in one call
  double formula_bytes = 0;        // the same by the formula of docs/communication.md
  int hops = 0;                    // messages one after another, by the formula
  int64_t busiest_node_bytes = 0;  // leave the node that sends most to others; 0 on one node
};

// Sums `elements` of fp32 `repeats` times after one call that is not timed. Collective; every rank returns
// the same figures.
AllReduceBenchmark bench_all_reduce(Communicator& world, Backend& backend, AllReduceAlgorithm algorithm,
                                    int64_t elements, int repeats);

}  // namespace tessera
