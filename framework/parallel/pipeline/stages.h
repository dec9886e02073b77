// SPDX-License-Identifier: Apache-2.0
// Which consecutive units of a model form each stage of a pipeline, and which rank of the pipeline has it.
#pragma once
#include <algorithm>
#include <vector>

#include "framework/base/check.h"

namespace tessera {

struct StagePlan {
  std::vector<int> rank_of_stage = {0};
  std::vector<int> first_unit = {0, 0};  // of each stage, and the number of units

  int stages() const { return static_cast<int>(rank_of_stage.size()); }
  int units() const { return first_unit.back(); }
  int units_of(int stage) const { return first_unit.at(static_cast<size_t>(stage) + 1) - start(stage); }
  int start(int stage) const { return first_unit.at(static_cast<size_t>(stage)); }
  std::vector<int> units_of_stages() const {
    std::vector<int> counts;
    for (int stage = 0; stage < stages(); ++stage) counts.push_back(units_of(stage));
    return counts;
  }
  int stage_of(int unit) const {
    CHECK(unit >= 0 && unit < units(), "unit {} of {}", unit, units());
    const auto above = std::upper_bound(first_unit.begin(), first_unit.end(), unit);
    return static_cast<int>(above - first_unit.begin()) - 1;
  }
  int ranks() const { return *std::max_element(rank_of_stage.begin(), rank_of_stage.end()) + 1; }
  int rank_of(int stage) const { return rank_of_stage.at(static_cast<size_t>(stage)); }
  int rank_of_unit(int unit) const { return rank_of(stage_of(unit)); }
};

// The plan of stages with this many blocks each.
StagePlan make_stage_plan(std::vector<int> rank_of_stage, const std::vector<int>& blocks_of_stage);

}  // namespace tessera
