// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>

#include "framework/base/check.h"
#include "framework/parallel/pipeline/fill.h"
#include "framework/parallel/pipeline/generate.h"
#include "framework/parallel/pipeline/quickest.h"

namespace tessera {
namespace {

std::vector<Pattern> patterns_on(const std::vector<int>& rank_of_stage) {
  const int stages = static_cast<int>(rank_of_stage.size());
  const int ranks = std::ranges::max(rank_of_stage) + 1;
  std::vector<Pattern> patterns;
  if (ranks > 1 && rank_of_stage == v_placement(ranks)) {
    for (const VLegs& legs : {kZbVLegs, kVHalfLegs, kVMinLegs})
      for (Pattern& pattern : v_patterns(ranks, legs)) patterns.push_back(std::move(pattern));
    return patterns;
  }
  CHECK(rank_of_stage == straight_placement(ranks, stages / ranks), "auto knows straight and V placements");
  for (const int climb : {2, 5}) patterns.push_back(straight_pattern(ranks, stages / ranks, climb));
  return patterns;
}

// The pattern as it is, or else with micro-batches farther apart, by as little as brings each rank below
// `bytes`. At the widest, one micro-batch has left before the next comes.
std::optional<Schedule> within(Pattern pattern, const CostModel& costs, int microbatches, int64_t bytes) {
  const auto order = [&] { return ordered(pattern, microbatches, ActionKind::BackwardInput); };
  const auto fits = [&](const Schedule& list) { return std::ranges::max(least_bytes(list, costs)) <= bytes; };
  if (Schedule nominal = order(); fits(nominal)) return nominal;

  int64_t wide = std::ranges::max(pattern.backward) + 1, narrow = 0;
  pattern.group = 1;
  pattern.group_period = wide;
  Schedule best = order();
  if (!fits(best)) return {};
  while (wide - narrow > 1) {
    pattern.group_period = (narrow + wide) / 2;
    Schedule candidate = order();
    if (fits(candidate)) {
      wide = pattern.group_period;
      best = std::move(candidate);
    } else {
      narrow = pattern.group_period;
    }
  }
  return best;
}

// The same bytes, in a world where all work takes as long and messages take no time: there the named forms
// place their weight gradients.
CostModel even_times(const CostModel& costs) {
  std::vector<std::vector<WorkCost>> stages;
  for (int stage = 0; stage < costs.stages(); ++stage) {
    const WorkCost& cost = costs.of(stage, -1);
    stages.push_back({{.saved = cost.saved, .saved_for_weight = cost.saved_for_weight}});
  }
  return CostModel(std::move(stages));
}

// Fills the order of F and I in ways that suit the costs.
void try_fillings(const Schedule& order, const CostModel& costs, int64_t bytes, Quickest& search) {
  search.consider(filled(order, even_times(costs), {.bytes = bytes}));
  for (const double patience : {0.5, 1.0})
    for (const double weight_patience : {0.0, 0.5})
      for (const bool wait_for_last : {false, true})
        search.consider(filled(order, costs,
                               {.bytes = bytes,
                                .forward_patience = patience,
                                .weight_patience = weight_patience,
                                .wait_for_last = wait_for_last}));
}

}  // namespace

Schedule auto_schedule(const CostModel& costs, const std::vector<int>& rank_of_stage, int microbatches,
                       int64_t bytes) {
  Quickest search(costs, bytes);
  for (const Pattern& pattern : patterns_on(rank_of_stage)) {
    if (const auto order = within(pattern, costs, microbatches, bytes))
      try_fillings(*order, costs, bytes, search);
    if (!pattern.weight.empty()) search.consider(in_place(pattern, microbatches));
  }
  CHECK_AS(ExitCode::Usage, search.best(),
           "no order of the pipeline's work keeps live activations within {} bytes a rank", bytes);
  return *search.best();
}

}  // namespace tessera
