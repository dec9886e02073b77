// SPDX-License-Identifier: Apache-2.0
// Activations that a rank holds, which depend on the order of its actions alone: what forwards have left for
// their backward and is not away, and what arrives for work to come.
#pragma once
#include <algorithm>
#include <set>
#include <utility>

#include "framework/parallel/pipeline/costs.h"

namespace tessera {

class LiveBytes {
 public:
  explicit LiveBytes(const CostModel& costs) : costs_(&costs) {}

  int64_t now() const { return now_; }
  int64_t peak() const { return peak_; }
  // `received` says that the input (of a forward) or the gradient (of a backward) came in a message. Of two
  // that run together only the end of both is a moment that `counts`.
  void apply(const Action& action, bool received, bool counts = true) {
    if (action.kind == ActionKind::ForwardKeepingInput) inputs_.insert(unit_of(action));
    if (action.kind == ActionKind::Recompute) inputs_.erase(unit_of(action));
    if (action.kind == ActionKind::Offload) leaving_ += left_by(action);
    now_ += change(action, received);
    if (!counts) return;
    peak_ = std::max(peak_, now_);
    // What is being written is given up once the work behind its O has ended.
    if (is_work(action.kind)) now_ -= std::exchange(leaving_, 0);
  }
  // Bytes of what O and L move.
  int64_t left_by(const Action& action) const {
    const WorkCost& cost = costs_->of(action.stage, action.unit);
    return inputs_.contains(unit_of(action)) ? cost.input : cost.saved;
  }

 private:
  static Action unit_of(const Action& a) { return {ActionKind::Forward, a.stage, a.unit, a.microbatch}; }

  int64_t change(const Action& action, bool received) const {
    if (action.kind == ActionKind::Reload) return left_by(action);
    if (!is_work(action.kind)) return is_receive(action.kind) ? costs_->message_bytes : 0;
    const WorkCost& cost = costs_->of(action.stage, action.unit);
    const int64_t used = received ? costs_->message_bytes : 0;
    switch (action.kind) {
      case ActionKind::Forward:
        return cost.saved - used;
      case ActionKind::ForwardKeepingInput:
        return cost.input - used;
      case ActionKind::Recompute:
        return cost.saved - cost.input;
      case ActionKind::BackwardInput:
        return cost.saved_for_weight - cost.saved - used;
      case ActionKind::BackwardWeight:
        return -cost.saved_for_weight;
      case ActionKind::Backward:
        return -cost.saved - used;
      default:
        return 0;
    }
  }

  const CostModel* costs_;
  int64_t now_ = 0, peak_ = 0;
  int64_t leaving_ = 0;      // being written
  std::set<Action> inputs_;  // forwards that kept their input only
};

}  // namespace tessera
