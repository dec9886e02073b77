// SPDX-License-Identifier: Apache-2.0
// V-Half and V-Min on few ranks against all orders that there are: none is quicker in as little memory. Work
// takes a unit of time each and messages take none, so nothing is lost by looking at whole units only.
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <unordered_set>
#include <vector>

#include "framework/parallel/pipeline/generate.h"
#include "framework/parallel/pipeline/simulate.h"

namespace tessera {
namespace {

// All orders on a V of `ranks`, each rank with at most `live` stages' activations. Micro-batches are alike,
// so a state is how many F and I each stage has done, and how many W each rank.
class AllOrders {
 public:
  AllOrders(int ranks, int microbatches, int live)
      : ranks_(ranks), stages_(2 * ranks), microbatches_(microbatches), live_(live) {}

  bool one_ends_within(int time) const {
    if (time < 6 * microbatches_) return false;
    std::unordered_set<State> now{State(static_cast<size_t>(2 * stages_ + ranks_), '\0')};
    for (int left = time; left > 0 && !now.empty(); --left) {
      std::unordered_set<State> next;
      for (const State& state : now) advance(state, left, 0, state, next);
      now = std::move(next);
    }
    return !now.empty();  // whatever could not end any more was left out
  }

 private:
  using State = std::string;
  size_t forward(int stage) const { return static_cast<size_t>(stage); }
  size_t backward(int stage) const { return static_cast<size_t>(stages_ + stage); }
  size_t weight(int rank) const { return static_cast<size_t>(2 * stages_ + rank); }

  // All that ranks from `rank` on can do in one unit of time; `next` has what those before do.
  void advance(const State& state, int left, int rank, State next, std::unordered_set<State>& reached) const {
    if (rank == ranks_) {
      reached.insert(std::move(next));
      return;
    }
    const int pair[] = {rank, stages_ - 1 - rank};
    const auto go_on = [&](size_t counter) {
      State changed = next;
      ++changed[counter];
      if (can_end(changed, pair, left - 1)) advance(state, left, rank + 1, changed, reached);
    };
    const int weights = state[weight(rank)];
    const int held = state[forward(pair[0])] + state[forward(pair[1])] - weights;
    bool must_work = false;
    for (const int stage : pair) {
      const int forwards = state[forward(stage)], backwards = state[backward(stage)];
      const bool has_input = stage == 0 || state[forward(stage - 1)] > forwards;
      if (held < live_ && forwards < microbatches_ && has_input) go_on(forward(stage));
      const int gradients = stage + 1 < stages_ ? state[backward(stage + 1)] : forwards;
      if (gradients <= backwards) continue;
      must_work = true;
      go_on(backward(stage));
    }
    if (state[backward(pair[0])] + state[backward(pair[1])] > weights) {
      must_work = true;
      go_on(weight(rank));
    }
    // To wait while an I or a W could be done never helps: done now instead of later, it holds up nothing.
    const int done = held + 2 * weights + state[backward(pair[0])] + state[backward(pair[1])];
    if (!must_work && 6 * microbatches_ - done <= left - 1 && can_end(state, pair, left - 1))
      advance(state, left, rank + 1, next, reached);
  }

  // The last micro-batch still has its way through the stages to go.
  bool can_end(const State& state, const int (&pair)[2], int left) const {
    for (const int stage : pair) {
      const int forwards = microbatches_ - state[forward(stage)];
      const int backwards = microbatches_ - state[backward(stage)];
      if (forwards > 0 && forwards + 2 * stages_ - stage > left) return false;
      if (backwards > 0 && backwards + stage + 1 > left) return false;
    }
    return true;
  }

  int ranks_, stages_, microbatches_, live_;
};

struct VCase {
  Schedule (*make)(int ranks, int microbatches);
  int ranks, microbatches, live;
};

int time_of(const VCase& c) {
  const Simulation simulation = simulate(c.make(c.ranks, c.microbatches), equal_costs(2 * c.ranks));
  EXPECT_LE(simulation.peak_bytes(), c.live);
  return static_cast<int>(simulation.seconds());
}

TEST(LeastTime, NoOrderIsQuickerInTheMemoryOfVHalf) {
  for (const auto& [ranks, microbatches, live] :
       {std::array{2, 6, 4}, {3, 6, 4}, {4, 6, 6}, {5, 5, 6}, {6, 5, 8}, {7, 5, 8}})
    EXPECT_FALSE(AllOrders(ranks, microbatches, live)
                     .one_ends_within(time_of({v_half, ranks, microbatches, live}) - 1))
        << ranks;
}

TEST(LeastTime, NoOrderIsQuickerInTheMemoryOfVMin) {
  for (const auto& [ranks, microbatches, live] :
       {std::array{2, 6, 4}, {3, 6, 4}, {4, 6, 4}, {5, 5, 6}, {6, 4, 6}, {7, 4, 6}})
    EXPECT_FALSE(
        AllOrders(ranks, microbatches, live).one_ends_within(time_of({v_min, ranks, microbatches, live}) - 1))
        << ranks;
}

// The search itself: it finds the orders that there are, by hand and by the filler.
TEST(LeastTime, IsFound) {
  EXPECT_TRUE(AllOrders(1, 2, 2).one_ends_within(12));
  EXPECT_FALSE(AllOrders(1, 2, 2).one_ends_within(11));
  EXPECT_FALSE(AllOrders(1, 2, 1).one_ends_within(100)) << "the second stage has no room";
  for (const VCase& c : {VCase{zb_v, 3, 5, 6}, VCase{v_half, 3, 6, 4}, VCase{v_min, 4, 6, 4}})
    EXPECT_TRUE(AllOrders(c.ranks, c.microbatches, c.live).one_ends_within(time_of(c))) << c.ranks;
}

}  // namespace
}  // namespace tessera
