// SPDX-License-Identifier: Apache-2.0
#include "framework/parallel/pipeline/pattern.h"

#include <algorithm>

#include "framework/base/check.h"

namespace tessera {
namespace {

// Starts of a rank's F below, F above, I above and I below (the two stages of a V), with waits at the turns.
std::array<int64_t, 4> v_starts(int ranks, int rank, const std::array<int, 4>& legs,
                                const std::array<int, 3>& waits) {
  const int64_t last = ranks - 1, down = rank, up = last - rank;
  const int64_t first_turn = legs[0] * last + 1 + waits[0];
  const int64_t second_turn = first_turn + legs[1] * last + 1 + waits[1];
  const int64_t third_turn = second_turn + legs[2] * last + 1 + waits[2];
  return {legs[0] * down, first_turn + legs[1] * up, second_turn + legs[2] * down, third_turn + legs[3] * up};
}

bool collides(int ranks, const std::array<int, 4>& legs, const std::array<int, 3>& waits) {
  for (int rank = 0; rank < ranks; ++rank) {
    unsigned taken = 0;
    for (const int64_t start : v_starts(ranks, rank, legs, waits)) {
      const unsigned unit = 1u << (start % 6);
      if (taken & unit) return true;
      taken |= unit;
    }
  }
  return false;
}

std::array<int, 3> least_waits(int ranks, const std::array<int, 4>& legs) {
  for (int sum = 0; sum <= 15; ++sum)
    for (int a = 0; a <= std::min(sum, 5); ++a)
      for (int b = std::max(0, sum - a - 5); b <= std::min(sum - a, 5); ++b)
        if (const std::array<int, 3> waits = {a, b, sum - a - b}; !collides(ranks, legs, waits)) return waits;
  fail(ExitCode::Communication, "no waits keep the work of a V with legs {} {} {} {} apart", legs[0], legs[1],
       legs[2], legs[3]);
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

Pattern v_pattern(int ranks, std::array<int, 4> legs) {
  Pattern pattern{.rank_of_stage = v_placement(ranks),
                  .forward = std::vector<int64_t>(static_cast<size_t>(2 * ranks)),
                  .backward = std::vector<int64_t>(static_cast<size_t>(2 * ranks)),
                  .group_period = 6};
  const std::array<int, 3> waits = least_waits(ranks, legs);
  for (int rank = 0; rank < ranks; ++rank) {
    const auto below = static_cast<size_t>(rank), above = static_cast<size_t>(2 * ranks - 1 - rank);
    const auto starts = v_starts(ranks, rank, legs, waits);
    pattern.forward[below] = starts[0];
    pattern.forward[above] = starts[1];
    pattern.backward[above] = starts[2];
    pattern.backward[below] = starts[3];
  }
  return pattern;
}

Schedule ordered(const Pattern& pattern, int microbatches, ActionKind backward) {
  CHECK(microbatches >= 1, "a schedule needs at least one micro-batch, got {}", microbatches);
  struct Timed {
    int64_t time;
    Action action;
  };
  const int ranks = std::ranges::max(pattern.rank_of_stage) + 1;
  std::vector<std::vector<Timed>> lists(static_cast<size_t>(ranks));
  for (size_t s = 0; s < pattern.rank_of_stage.size(); ++s)
    for (int m = 0; m < microbatches; ++m) {
      auto& list = lists[static_cast<size_t>(pattern.rank_of_stage[s])];
      const int stage = static_cast<int>(s);
      list.push_back({pattern.forward[s] + pattern.delay(m), {ActionKind::Forward, stage, -1, m}});
      list.push_back({pattern.backward[s] + pattern.delay(m), {backward, stage, -1, m}});
    }
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
