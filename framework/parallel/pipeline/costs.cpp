// SPDX-License-Identifier: Apache-2.0
#include "framework/parallel/pipeline/costs.h"

namespace tessera {

CostModel::CostModel(std::vector<std::vector<WorkCost>> unit_of_stage) : units_(std::move(unit_of_stage)) {
  for (auto& units : units_) {
    WorkCost sum{.forward = 0, .backward_input = 0, .backward_weight = 0, .saved = 0, .saved_for_weight = 0};
    for (size_t i = 0; i < units.size(); ++i) {
      WorkCost& unit = units[i];
      if (i > 0) unit.input = 0;
      sum.forward += unit.forward;
      sum.backward_input += unit.backward_input;
      sum.backward_weight += unit.backward_weight;
      sum.saved += unit.saved;
      sum.saved_for_weight += unit.saved_for_weight;
      sum.input += unit.input;
    }
    stages_.push_back(sum);
  }
}

double CostModel::seconds(const Action& action) const {
  switch (action.kind) {
    case ActionKind::Forward:
    case ActionKind::ForwardKeepingInput:
    case ActionKind::Recompute:
      return of(action.stage, action.unit).forward;
    case ActionKind::BackwardInput:
      return of(action.stage, action.unit).backward_input;
    case ActionKind::BackwardWeight:
      return of(action.stage, action.unit).backward_weight;
    case ActionKind::Backward:
      return of(action.stage, action.unit).backward_input + of(action.stage, action.unit).backward_weight;
    default:
      return 0;
  }
}

CostModel equal_costs(int stages, const WorkCost& cost) {
  return CostModel(std::vector<std::vector<WorkCost>>(static_cast<size_t>(stages), {cost}));
}

}  // namespace tessera
