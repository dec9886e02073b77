// SPDX-License-Identifier: Apache-2.0
// Nominal times at which stages run forward and backward. Only their order on each rank counts: since it
// respects every dependency, lists made from it cannot wait for each other for ever.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "framework/parallel/pipeline/costs.h"
#include "framework/parallel/pipeline/schedule.h"

namespace tessera {

struct Pattern {
  std::vector<int> rank_of_stage;
  std::vector<int64_t> forward = {}, backward = {};  // by stage: units of time at which micro-batch 0 starts
  std::vector<int64_t> weight = {};                  // none: the pattern has no place for it
  int64_t period = 0;                                // from one micro-batch to the next of its group
  int group = 1;                                     // micro-batches that follow each other through a stage
  int64_t group_period = 0;                          // from one group to the next

  int64_t delay(int m) const { return m / group * group_period + m % group * period; }
};

// Stage s lives on rank s % ranks.
std::vector<int> straight_placement(int ranks, int chunks);
// Stages i and 2 * ranks - 1 - i live on rank i, so that the first and the last share a rank.
std::vector<int> v_placement(int ranks);

// `chunks` stages a rank, one behind the other; F, I and W take a unit of time each. Going back, a
// micro-batch takes `climb` units a rank: 2 is the least that fits I and W, and then a rank holds as few
// micro-batches as keep it busy; 5 holds twice as many, so that neither messages nor weight gradients hold up
// others.
Pattern straight_pattern(int ranks, int chunks, int climb);

// Units of time a rank of a V's four ways: down and up forward, down and up backward.
using VLegs = std::array<int, 4>;
inline constexpr VLegs kZbVLegs = {4, 2, 4, 2}, kVHalfLegs = {2, 1, 2, 1}, kVMinLegs = {1, 1, 1, 1};

// The building block of a V (Qi et al. 2024): down, up, down and up again, with legs[i] units of time a rank,
// and a wait between forward and backward. It repeats every 6 units: F, I and W of both stages of a rank,
// each on a unit of its own. A pattern for each wait below 6 that keeps them apart, the least first. The sum
// of the legs is what a rank holds, in sixths of a stage's activations a rank.
std::vector<Pattern> v_patterns(int ranks, const VLegs& legs);

// Each rank's forwards and backwards (of kind B or I) of `microbatches` in the order of their nominal times.
Schedule ordered(const Pattern& pattern, int microbatches, ActionKind backward);
// F, I and W in that order, of a pattern that has a place for W.
Schedule in_place(const Pattern& pattern, int microbatches);

// Most bytes that each rank of an order of F and I holds when each weight gradient follows its input
// gradient.
std::vector<int64_t> least_bytes(const Schedule& order, const CostModel& costs);

}  // namespace tessera
