// SPDX-License-Identifier: Apache-2.0
// What work costs: the one table that generators plan with, the validator bounds memory with, and the
// simulator counts with. Times and bytes come from the planner, from a measurement, or are units.
#pragma once
#include <cstdint>
#include <numeric>
#include <vector>

#include "framework/parallel/pipeline/schedule.h"

namespace tessera {

// One unit, or one whole stage, for one micro-batch. Times are seconds.
struct WorkCost {
  double forward = 1;
  double backward_input = 1;
  double backward_weight = 1;
  int64_t saved = 1;             // bytes that a forward leaves
  int64_t saved_for_weight = 1;  // of these, what is left from the input gradient to the weight gradient
  int64_t input = 0;             // bytes that are left when the forward will be repeated
};

class CostModel {
 public:
  explicit CostModel(std::vector<std::vector<WorkCost>> unit_of_stage);

  int stages() const { return static_cast<int>(stages_.size()); }
  int units(int stage) const { return static_cast<int>(units_[static_cast<size_t>(stage)].size()); }
  // unit -1: the sum of the stage. Recomputation of a stage keeps the input of its first unit only.
  const WorkCost& of(int stage, int unit) const {
    const auto s = static_cast<size_t>(stage);
    return unit < 0 ? stages_[s] : units_[s][static_cast<size_t>(unit)];
  }
  double seconds(const Action& action) const;

  double message = 0;         // seconds from the end of the sender's work to its arrival on another rank
  double message_busy = 0;    // seconds of a message that keep each of its ends from working
  int64_t message_bytes = 0;  // held by the receiver from the start of the receive to its use
  double gather = 0;          // seconds of a unit's gather, beside the work
  double reduce = 0;          // seconds of a bucket's reduction, beside the work
  double store = 0;           // seconds of a byte to or from the store of activations, beside the work

 private:
  std::vector<std::vector<WorkCost>> units_;
  std::vector<WorkCost> stages_;
};

// Stages of one unit that all cost the same.
CostModel equal_costs(int stages, const WorkCost& cost = {});

}  // namespace tessera
