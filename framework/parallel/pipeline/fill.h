// SPDX-License-Identifier: Apache-2.0
// Places weight gradients, which nobody waits for, in the gaps of an order of forwards and input gradients.
#pragma once
#include "framework/parallel/pipeline/costs.h"
#include "framework/parallel/pipeline/schedule.h"

namespace tessera {

struct FillOptions {
  int64_t bytes = 0;  // of live activations that a rank may hold; at least least_bytes() of the order
  // When the next work of its list comes within this share of the time of a later forward, or of a weight
  // gradient, a rank waits for it instead.
  double forward_patience = 0;
  double weight_patience = 0;
  bool wait_for_last = false;  // weight_patience is 1 before the last micro-batch's input gradient
};

// `order` has F and I of whole stages only. A rank does the next action of its list; while that is not there
// yet, a later I that is, or a later F that leaves the F before it their memory, or else the oldest W. Where
// memory for the next F is missing, W goes first.
Schedule filled(const Schedule& order, const CostModel& costs, const FillOptions& options);

}  // namespace tessera
