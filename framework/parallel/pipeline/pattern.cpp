// SPDX-License-Identifier: Apache-2.0
#include "framework/parallel/pipeline/pattern.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "framework/base/check.h"

namespace tessera {
namespace {

// A rank's part of a V's building block: F below, F above, I above and I below (its two stages), and the W of
// both I, above first.
struct VUnits {
  std::array<int64_t, 4> starts;
  std::array<int64_t, 2> weights;
};

constexpr int64_t kVPeriod = 6;

// `wait` stands at the turn from forward to backward.
std::array<int64_t, 4> v_starts(int ranks, int rank, const VLegs& legs, int wait) {
  const int64_t last = ranks - 1, down = rank, up = last - rank;
  const int64_t first_turn = legs[0] * last + 1;
  const int64_t second_turn = first_turn + legs[1] * last + 1 + wait;
  const int64_t third_turn = second_turn + legs[2] * last + 1;
  return {legs[0] * down, first_turn + legs[1] * up, second_turn + legs[2] * down, third_turn + legs[3] * up};
}

// The two units of the period that are left, such that the two W together wait least; none when two of the
// starts fall on the same unit.
std::optional<VUnits> v_units(const std::array<int64_t, 4>& starts) {
  std::array<bool, kVPeriod> taken{};
  for (const int64_t start : starts)
    if (std::exchange(taken[static_cast<size_t>(start % kVPeriod)], true)) return {};
  std::vector<int64_t> left;
  for (int64_t unit = 0; unit < kVPeriod; ++unit)
    if (!taken[static_cast<size_t>(unit)]) left.push_back(unit);
  const auto first_from = [](int64_t time, int64_t unit) {
    return time + (unit - time % kVPeriod + kVPeriod) % kVPeriod;
  };
  const auto weights = [&](int64_t above, int64_t below) {
    return std::array{first_from(starts[2] + 1, above), first_from(starts[3] + 1, below)};
  };
  const auto one = weights(left[0], left[1]), other = weights(left[1], left[0]);
  return VUnits{starts, one[0] + one[1] <= other[0] + other[1] ? one : other};
}

// None when on some rank the work does not keep apart.
std::optional<Pattern> v_pattern(int ranks, const VLegs& legs, int wait) {
  const auto stages = static_cast<size_t>(2 * ranks);
  Pattern pattern{.rank_of_stage = v_placement(ranks),
                  .forward = std::vector<int64_t>(stages),
                  .backward = std::vector<int64_t>(stages),
                  .weight = std::vector<int64_t>(stages),
                  .group_period = kVPeriod};
  for (int rank = 0; rank < ranks; ++rank) {
    const auto units = v_units(v_starts(ranks, rank, legs, wait));
    if (!units) return {};
    const auto below = static_cast<size_t>(rank), above = stages - 1 - below;
    pattern.forward[below] = units->starts[0];
    pattern.forward[above] = units->starts[1];
    pattern.backward[above] = units->starts[2];
    pattern.backward[below] = units->starts[3];
    pattern.weight[above] = units->weights[0];
    pattern.weight[below] = units->weights[1];
  }
  return pattern;
}

struct TimesOfKind {
  ActionKind kind;
  const std::vector<int64_t>& start;  // by stage
};

Schedule by_time(const Pattern& pattern, int microbatches, const std::vector<TimesOfKind>& work) {
  CHECK(microbatches >= 1, "a schedule needs at least one micro-batch, got {}", microbatches);
  struct Timed {
    int64_t time;
    Action action;
  };
  const int ranks = std::ranges::max(pattern.rank_of_stage) + 1;
  std::vector<std::vector<Timed>> lists(static_cast<size_t>(ranks));
  for (size_t s = 0; s < pattern.rank_of_stage.size(); ++s)
    for (int m = 0; m < microbatches; ++m)
      for (const auto& [kind, start] : work)
        lists[static_cast<size_t>(pattern.rank_of_stage[s])].push_back(
            {start[s] + pattern.delay(m), {kind, static_cast<int>(s), -1, m}});
  Schedule schedule{.stages = static_cast<int>(pattern.rank_of_stage.size()),
                    .microbatches = microbatches,
                    .rank_of_stage = pattern.rank_of_stage,
                    .by_rank = {}};
  for (auto& list : lists) {
    std::ranges::stable_sort(list, {}, &Timed::time);
    auto& actions = schedule.by_rank.emplace_back();
    for (const Timed& timed : list) actions.push_back(timed.action);
  }
  return schedule;
}

}  // namespace

std::vector<int> straight_placement(int ranks, int chunks) {
  CHECK(ranks >= 1 && chunks >= 1, "a pipeline of {} ranks and {} stages a rank", ranks, chunks);
  std::vector<int> placement;
  for (int stage = 0; stage < ranks * chunks; ++stage) placement.push_back(stage % ranks);
  return placement;
}

std::vector<int> v_placement(int ranks) {
  CHECK(ranks >= 1, "a pipeline of {} ranks", ranks);
  std::vector<int> placement;
  for (int stage = 0; stage < 2 * ranks; ++stage) placement.push_back(std::min(stage, 2 * ranks - 1 - stage));
  return placement;
}

Pattern straight_pattern(int ranks, int chunks, int climb) {
  const int64_t pass = int64_t{3} * ranks;  // of a group of micro-batches through one stage
  Pattern pattern{.rank_of_stage = straight_placement(ranks, chunks),
                  .period = 3,
                  .group = ranks,
                  .group_period = pass * chunks};
  const int64_t turn = pass * (chunks - 1) + ranks;  // the last stage runs backward right after forward
  for (int stage = 0; stage < ranks * chunks; ++stage) {
    const int rank = stage % ranks, chunk = stage / ranks;
    pattern.forward.push_back(pass * chunk + rank);
    pattern.backward.push_back(turn + pass * (chunks - 1 - chunk) + int64_t{climb} * (ranks - 1 - rank));
  }
  return pattern;
}

std::vector<Pattern> v_patterns(int ranks, const VLegs& legs) {
  std::vector<Pattern> patterns;
  for (int wait = 0; wait < kVPeriod; ++wait)
    if (auto pattern = v_pattern(ranks, legs, wait)) patterns.push_back(std::move(*pattern));
  CHECK(!patterns.empty(), "no wait keeps the work of a V with legs {} {} {} {} apart", legs[0], legs[1],
        legs[2], legs[3]);
  return patterns;
}

Schedule ordered(const Pattern& pattern, int microbatches, ActionKind backward) {
  return by_time(pattern, microbatches,
                 {{ActionKind::Forward, pattern.forward}, {backward, pattern.backward}});
}

Schedule in_place(const Pattern& pattern, int microbatches) {
  return by_time(pattern, microbatches,
                 {{ActionKind::Forward, pattern.forward},
                  {ActionKind::BackwardInput, pattern.backward},
                  {ActionKind::BackwardWeight, pattern.weight}});
}

std::vector<int64_t> least_bytes(const Schedule& order, const CostModel& costs) {
  std::vector<int64_t> bytes;
  for (const auto& actions : order.by_rank) {
    int64_t held = 0, most = 0;
    for (const Action& action : actions) {
      const int64_t saved = costs.of(action.stage, -1).saved;
      held += action.kind == ActionKind::Forward ? saved : -saved;
      most = std::max(most, held);
    }
    bytes.push_back(most);
  }
  return bytes;
}

}  // namespace tessera
