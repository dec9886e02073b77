// SPDX-License-Identifier: Apache-2.0
// Proves a schedule before it runs. What is assumed of a rank: it goes through its list in order. Sends,
// receives, gathers, reductions, offloads and reloads are started where they stand, and not waited for there.
// Work waits: for its parameters, for what comes back to it, for the message it needs, and that moves once
// both its ends have been reached. Between two
// ranks the k-th send one way meets the k-th receive. Nothing else waits, but the end of the list for
// everything.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "framework/base/check.h"
#include "framework/parallel/pipeline/costs.h"
#include "framework/parallel/pipeline/passes.h"
#include "framework/parallel/pipeline/schedule.h"

namespace tessera {

// What a schedule must be complete and possible for.
struct ValidationSizes {
  std::vector<int> units_of_stage;
  std::vector<std::vector<int>> bucket_first_unit = {};  // [stage][bucket]; empty: nothing is reduced
  Reductions reductions = Reductions::Once;
  bool forward_only = false;
  std::vector<TiedBucket> tied = {};
  bool messages = true;    // false: before with_messages(); work then waits for the work of the other stage
  int gathered_units = 0;  // most units gathered at once; 0: all parameters are always there
  const CostModel* costs = nullptr;  // with `bytes`: most bytes of live activations that a rank may hold
  int64_t bytes = 0;
  // Said before what is wrong with a cell, where the lists come from a file: "order.txt:2:5: ".
  std::function<std::string(size_t rank, size_t cell)> place = {};
};

// Proves that
//  - every unit of every stage runs on the stage's rank, forward exactly once a micro-batch and, unless
//    forward_only, backward exactly once, as B or as I then W; as K then C then backward if it is recomputed;
//  - what runs together is a forward and a backward of two micro-batches, which wait for what both need;
//  - each in its order: after the unit below or above, after its forward, on another rank's work through
//    one send and one receive;
//  - both ends of every pair of ranks name its messages in one order, and no ranks wait for each other for
//  ever;
//  - what leaves for the store is what a forward has left, once, and it is back before its backward begins;
//  - every bucket is reduced once, after its last backward, or once a micro-batch after its backward; and
//  tied buckets in one order on all their ranks;
//  - parameters are there when they are needed, and neither they nor activations exceed their bounds.
// Throws with `code` and the table of actions, the bad cell marked as >>cell<<, waiting ones as [cell].
void validate(const Schedule& schedule, const ValidationSizes& sizes,
              ExitCode code = ExitCode::Communication);

}  // namespace tessera
