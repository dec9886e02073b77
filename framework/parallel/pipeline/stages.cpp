// SPDX-License-Identifier: Apache-2.0
#include "framework/parallel/pipeline/stages.h"

#include "framework/parallel/pipeline/stage_split.h"

namespace tessera {

StagePlan make_stage_plan(std::vector<int> rank_of_stage, const std::vector<int>& blocks_of_stage) {
  CHECK(rank_of_stage.size() == blocks_of_stage.size(), "{} stages have ranks and {} have blocks",
        rank_of_stage.size(), blocks_of_stage.size());
  StagePlan plan{.rank_of_stage = std::move(rank_of_stage), .first_unit = {}};
  for (const UnitRange& units : units_of_stages(blocks_of_stage)) {
    plan.first_unit.push_back(units.first);
    if (plan.first_unit.size() == blocks_of_stage.size())
      plan.first_unit.push_back(units.first + units.count);
  }
  return plan;
}

}  // namespace tessera
