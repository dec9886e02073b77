// SPDX-License-Identifier: Apache-2.0
// Ten thousand random schedules, whole and broken, through the validator. What is valid is decided by a
// second statement of the rules, as a graph: nodes are actions, edges say what must be before, and a valid
// schedule has no missing node, no wrong edge within a rank and no cycle.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "framework/base/check.h"
#include "framework/parallel/pipeline/pattern.h"
#include "framework/parallel/pipeline/simulate.h"
#include "framework/parallel/pipeline/validate.h"

namespace tessera {
namespace {

using K = ActionKind;
using Random = std::mt19937;

int pick(Random& random, int low, int high) {
  return std::uniform_int_distribution<int>(low, high)(random);
}

struct Case {
  Schedule schedule;
  ValidationSizes sizes;
  CostModel costs = equal_costs(1);
};

// Any order that can run: at each moment some rank does some action whose input is there.
Schedule random_order(Random& random, std::vector<int> rank_of_stage, int microbatches) {
  const int stages = static_cast<int>(rank_of_stage.size());
  const int ranks = std::ranges::max(rank_of_stage) + 1;
  Schedule schedule{.stages = stages,
                    .microbatches = microbatches,
                    .rank_of_stage = rank_of_stage,
                    .by_rank = std::vector<std::vector<Action>>(static_cast<size_t>(ranks))};
  std::vector<Action> ready;
  for (int m = 0; m < microbatches; ++m) ready.push_back({K::Forward, 0, -1, m});
  while (!ready.empty()) {
    const int i = pick(random, 0, static_cast<int>(ready.size()) - 1);
    const Action a = ready[static_cast<size_t>(i)];
    ready.erase(ready.begin() + i);
    schedule.by_rank[static_cast<size_t>(rank_of_stage[static_cast<size_t>(a.stage)])].push_back(a);
    const K backward = pick(random, 0, 1) ? K::Backward : K::BackwardInput;
    if (a.kind == K::Forward && a.stage + 1 < stages)
      ready.push_back({K::Forward, a.stage + 1, -1, a.microbatch});
    if (a.kind == K::Forward && a.stage + 1 == stages) ready.push_back({backward, a.stage, -1, a.microbatch});
    if (starts_backward(a.kind) && a.stage > 0) ready.push_back({backward, a.stage - 1, -1, a.microbatch});
    if (a.kind == K::BackwardInput) ready.push_back({K::BackwardWeight, a.stage, -1, a.microbatch});
  }
  return schedule;
}

// Some pairs that may run together do, where no rank then waits for ever.
void join_some(Random& random, Schedule& order) {
  const Schedule alone = order;
  for (auto& actions : order.by_rank)
    for (size_t i = 1; i < actions.size(); ++i)
      actions[i].together = can_be_together(actions[i - 1], actions[i]) && pick(random, 0, 2) == 0;
  try {
    with_messages(order);
  } catch (const Error&) {
    order = alone;
  }
}

Case random_case(Random& random) {
  const int ranks = pick(random, 1, 4);
  const bool v = pick(random, 0, 1) == 1;
  const std::vector<int> placement = v ? v_placement(ranks) : straight_placement(ranks, pick(random, 1, 2));
  const auto stages = placement.size();
  Case c;
  std::vector<bool> recomputes;
  std::vector<std::vector<WorkCost>> costs(stages);
  for (size_t s = 0; s < stages; ++s) {
    c.sizes.units_of_stage.push_back(pick(random, 1, 3));
    recomputes.push_back(pick(random, 0, 3) == 0);
    auto& buckets = c.sizes.bucket_first_unit.emplace_back();
    for (int unit = c.sizes.units_of_stage[s] - 1; unit > 0; --unit)
      if (pick(random, 0, 1)) buckets.push_back(unit);
    buckets.push_back(0);
    for (int unit = 0; unit < c.sizes.units_of_stage[s]; ++unit)
      costs[s].push_back(
          {.saved = pick(random, 20, 90), .saved_for_weight = pick(random, 1, 19), .input = 3});
  }
  if (pick(random, 0, 1))
    c.sizes.tied.push_back({{0, 0}, {static_cast<int>(stages) - 1, c.sizes.units_of_stage.back() - 1}});
  if (pick(random, 0, 2) == 0) c.sizes.gathered_units = 1 + pick(random, 0, 2);
  c.costs = CostModel(std::move(costs));
  c.costs.message_bytes = pick(random, 0, 5);

  Schedule order = random_order(random, placement, pick(random, 1, 4));
  if (c.sizes.gathered_units != 1) join_some(random, order);
  order = with_units(with_messages(with_recomputation(order, recomputes)), c.sizes.units_of_stage);
  if (pick(random, 0, 1)) order = with_offload(order, pick(random, 2, 4));
  if (c.sizes.gathered_units > 0) order = with_parameter_gathers(order, c.sizes.gathered_units - 1);
  if (pick(random, 0, 2) == 0) c.sizes.reductions = Reductions::EveryMicrobatch;
  c.schedule = with_gradient_reduction(order, c.sizes.bucket_first_unit, c.sizes.tied, c.sizes.reductions);
  return c;
}

// What the validator says against it; "" when it accepts.
std::string problem(const Case& c) {
  try {
    validate(c.schedule, c.sizes);
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}
bool accepted(const Case& c) {
  return problem(c).empty();
}

// The second statement.
class Rules {
 public:
  explicit Rules(const Case& c) : c_(c), s_(c.schedule) {}

  // `original` is the multiset of actions that must be there.
  bool hold(const Schedule& original) {
    for (size_t rank = 0; rank < s_.by_rank.size(); ++rank) {
      auto have = s_.by_rank[rank], want = original.by_rank[rank];
      std::ranges::sort(have);
      std::ranges::sort(want);
      if (have != want) return false;
      for (size_t i = 0; i < s_.by_rank[rank].size(); ++i) {
        // A unit is gathered and dropped several times; all else happens once.
        const Action& a = s_.by_rank[rank][i];
        if (a.kind != K::GatherParameters && a.kind != K::DropParameters) where_[{rank, alone(a)}] = i;
      }
    }
    for (size_t rank = 0; rank < s_.by_rank.size(); ++rank)
      for (size_t i = 0; i < s_.by_rank[rank].size(); ++i)
        if (!fits(rank, i, alone(s_.by_rank[rank][i])) || !pair_fits(s_.by_rank[rank], i)) return false;
    return parameters_fit() && channels_match() && !has_cycle();
  }

 private:
  static Action alone(Action a) {
    a.together = false;
    return a;
  }
  static bool pair_fits(const std::vector<Action>& list, size_t i) {
    if (!list[i].together) return true;
    if (i == 0 || list[i - 1].microbatch == list[i].microbatch) return false;
    const K before = list[i - 1].kind, kind = list[i].kind;
    return (before == K::Forward || before == K::ForwardKeepingInput) &&
           (kind == K::Backward || kind == K::BackwardInput);
  }

  size_t home(int stage) const { return static_cast<size_t>(s_.rank_of_stage[static_cast<size_t>(stage)]); }
  int top(int stage) const { return c_.sizes.units_of_stage[static_cast<size_t>(stage)] - 1; }

  bool before(size_t rank, size_t i, std::initializer_list<K> any, int stage, int unit, int m) const {
    for (const K kind : any)
      if (const auto it = where_.find({rank, {kind, stage, unit, m}}); it != where_.end())
        return it->second < i;
    return false;
  }

  // Not away: it never left, or it is back.
  bool is_here(size_t rank, size_t i, int s, int u, int m) const {
    return !before(rank, i, {K::Offload}, s, u, m) || before(rank, i, {K::Reload}, s, u, m);
  }

  bool fits(size_t rank, size_t i, const Action& a) {
    const int s = a.stage, u = a.unit, m = a.microbatch;
    const auto input = [&](int from, int from_unit, std::initializer_list<K> made, K receive, K send) {
      if (home(from) == rank) return before(rank, i, made, from, from_unit, m);
      edges_.push_back({{home(from), {send, from, -1, m}}, {rank, a}});
      return before(rank, i, {receive}, s, -1, m);
    };
    switch (a.kind) {
      case K::Forward:
      case K::ForwardKeepingInput:
        if (u > 0) return before(rank, i, {K::Forward, K::ForwardKeepingInput}, s, u - 1, m);
        return s == 0 || input(s - 1, top(s - 1), {K::Forward, K::ForwardKeepingInput}, K::ReceiveActivation,
                               K::SendActivation);
      case K::Offload:
        return before(rank, i, {K::Forward, K::ForwardKeepingInput}, s, u, m) &&
               !before(rank, i, {K::Recompute, K::Backward, K::BackwardInput}, s, u, m);
      case K::Reload:
        return before(rank, i, {K::Offload}, s, u, m) &&
               std::any_of(s_.by_rank[rank].begin() +
                               static_cast<ptrdiff_t>(where_.at({rank, {K::Offload, s, u, m}})),
                           s_.by_rank[rank].begin() + static_cast<ptrdiff_t>(i),
                           [](const Action& other) { return is_work(other.kind); });
      case K::Recompute:
        if (!is_here(rank, i, s, u, m)) return false;
        return before(rank, i, {K::ForwardKeepingInput}, s, u, m) &&
               (u == 0 || before(rank, i, {K::Recompute}, s, u - 1, m));
      case K::Backward:
      case K::BackwardInput:
        if (!before(rank, i, {K::Forward, K::Recompute}, s, u, m) || !is_here(rank, i, s, u, m)) return false;
        if (u < top(s)) return before(rank, i, {K::Backward, K::BackwardInput}, s, u + 1, m);
        return s + 1 == s_.stages ||
               input(s + 1, 0, {K::Backward, K::BackwardInput}, K::ReceiveGradient, K::SendGradient);
      case K::BackwardWeight:
        return before(rank, i, {K::BackwardInput}, s, u, m);
      case K::SendActivation:
        return before(rank, i, {K::Forward, K::ForwardKeepingInput}, s, top(s), m);
      case K::SendGradient:
        return before(rank, i, {K::Backward, K::BackwardInput}, s, 0, m);
      case K::ReduceGradients: {
        bool all = true;
        for (int unit = c_.sizes.bucket_first_unit[static_cast<size_t>(s)][static_cast<size_t>(u)];
             unit <= top(s); ++unit)
          all = all && (c_.sizes.reductions == Reductions::Once
                            ? weights_before(rank, i, s, unit)
                            : before(rank, i, {K::Backward, K::BackwardWeight}, s, unit, m));
        return all;
      }
      case K::ReduceTied: {
        bool all = true;
        for (const UnitPlace& use : c_.sizes.tied[static_cast<size_t>(u)])
          if (home(use.stage) == rank) all = all && weights_before(rank, i, use.stage, use.unit);
        return all;
      }
      default:
        return true;
    }
  }

  bool weights_before(size_t rank, size_t i, int stage, int unit) const {
    for (int m = 0; m < s_.microbatches; ++m)
      if (!before(rank, i, {K::Backward, K::BackwardWeight}, stage, unit, m)) return false;
    return true;
  }

  bool parameters_fit() const {
    if (c_.sizes.gathered_units == 0) return true;
    for (const auto& list : s_.by_rank) {
      std::map<std::pair<int, int>, bool> there;
      for (const Action& a : list) {
        bool& here = there[{a.stage, a.unit}];
        if (a.kind == K::GatherParameters ? here : a.kind == K::DropParameters && !here) return false;
        if (a.kind == K::GatherParameters) here = true;
        if (a.kind == K::DropParameters) here = false;
        if (is_work(a.kind) && !here) return false;
        if (std::ranges::count_if(there, [](const auto& unit) { return unit.second; }) >
            c_.sizes.gathered_units)
          return false;
      }
    }
    return true;
  }

  bool channels_match() const {
    using Message = std::tuple<bool, int, int>;  // forward, lower stage, micro-batch
    std::map<std::pair<size_t, size_t>, std::vector<Message>> sent, received;
    for (size_t rank = 0; rank < s_.by_rank.size(); ++rank)
      for (const Action& a : s_.by_rank[rank]) {
        if (a.kind == K::SendActivation)
          sent[{rank, home(a.stage + 1)}].push_back({true, a.stage, a.microbatch});
        if (a.kind == K::SendGradient)
          sent[{rank, home(a.stage - 1)}].push_back({false, a.stage - 1, a.microbatch});
        if (a.kind == K::ReceiveActivation)
          received[{home(a.stage - 1), rank}].push_back({true, a.stage - 1, a.microbatch});
        if (a.kind == K::ReceiveGradient)
          received[{home(a.stage + 1), rank}].push_back({false, a.stage, a.microbatch});
      }
    return sent == received;
  }

  // Takes away, again and again, what has nothing left before it.
  bool has_cycle() const {
    std::map<Node, std::vector<Node>> waits;
    for (const auto& [from, to] : edges_) waits[to].push_back(from);
    std::vector<size_t> next(s_.by_rank.size(), 0);
    const auto happened = [&](const Node& node) { return where_.at(node) < next[node.first]; };
    for (bool progress = true; progress;) {
      progress = false;
      for (size_t rank = 0; rank < next.size(); ++rank) {
        if (next[rank] == s_.by_rank[rank].size()) continue;
        const auto& list = s_.by_rank[rank];
        const auto can_go = [&](const Action& a) {
          const auto it = waits.find({rank, alone(a)});
          return it == waits.end() || std::ranges::all_of(it->second, happened);
        };
        const bool pair = next[rank] + 1 < list.size() && list[next[rank] + 1].together;
        if (!can_go(list[next[rank]]) || (pair && !can_go(list[next[rank] + 1]))) continue;
        ++next[rank];
        progress = true;
      }
    }
    for (size_t rank = 0; rank < next.size(); ++rank)
      if (next[rank] < s_.by_rank[rank].size()) return true;
    return false;
  }

  using Node = std::pair<size_t, Action>;  // rank, action
  const Case& c_;
  const Schedule& s_;
  std::map<Node, size_t> where_;
  std::vector<std::pair<Node, Node>> edges_;  // between ranks
};

std::vector<Action>& random_list(Random& random, Schedule& schedule) {
  return schedule
      .by_rank[static_cast<size_t>(pick(random, 0, static_cast<int>(schedule.by_rank.size()) - 1))];
}
ptrdiff_t random_place(Random& random, const std::vector<Action>& list) {
  return pick(random, 0, static_cast<int>(list.size()) - 1);
}

TEST(ValidateProperty, TenThousandRandomSchedules) {
  Random random(20240917);
  int valid = 0, broken = 0, cycles = 0, pairs = 0, misplaced_transfers = 0;
  for (int trial = 0; trial < 2500; ++trial) {
    Case whole = random_case(random);
    const auto bytes = simulate(whole.schedule, whole.costs).peak_bytes();
    whole.sizes.costs = &whole.costs;
    whole.sizes.bytes = bytes;
    for (const auto& list : whole.schedule.by_rank) pairs += std::ranges::any_of(list, &Action::together);
    ASSERT_TRUE(Rules(whole).hold(whole.schedule)) << to_text(whole.schedule);
    ASSERT_TRUE(accepted(whole)) << to_text(whole.schedule);
    ++valid;

    Case fewer_bytes = whole;
    --fewer_bytes.sizes.bytes;
    ASSERT_FALSE(accepted(fewer_bytes)) << bytes << "\n" << to_text(whole.schedule);

    Case dropped = whole;
    auto& list = random_list(random, dropped.schedule);
    list.erase(list.begin() + random_place(random, list));
    ASSERT_FALSE(accepted(dropped)) << to_text(dropped.schedule);

    Case doubled = whole;
    auto& longer = random_list(random, doubled.schedule);
    const Action again = longer[static_cast<size_t>(random_place(random, longer))];
    longer.insert(longer.begin() + random_place(random, longer), again);
    ASSERT_FALSE(accepted(doubled)) << to_text(doubled.schedule);
    broken += 3;

    // Moved within a list: the rules decide. Without the bound, which depends on the order too.
    Case moved = whole;
    moved.sizes.costs = nullptr;
    for (int moves = pick(random, 1, 3); moves > 0; --moves) {
      auto& actions = random_list(random, moved.schedule);
      const Action action = actions[static_cast<size_t>(random_place(random, actions))];
      actions.erase(std::ranges::find(actions, action));
      actions.insert(actions.begin() + pick(random, 0, static_cast<int>(actions.size())), action);
    }
    const bool expected = Rules(moved).hold(whole.schedule);
    ASSERT_EQ(accepted(moved), expected) << to_text(moved.schedule);
    (expected ? valid : broken) += 1;

    // Misplaced: what leaves or comes back stands elsewhere.
    Case misplaced = whole;
    misplaced.sizes.costs = nullptr;
    auto& actions = random_list(random, misplaced.schedule);
    const auto transfers = std::ranges::count_if(actions, is_transfer, &Action::kind);
    if (transfers == 0) continue;
    auto at = actions.begin();
    for (int skip = pick(random, 0, static_cast<int>(transfers) - 1);; ++at)
      if (is_transfer(at->kind) && skip-- == 0) break;
    const Action transfer = *at;
    actions.erase(at);
    actions.insert(actions.begin() + random_place(random, actions), transfer);
    const bool holds = Rules(misplaced).hold(whole.schedule);
    ASSERT_EQ(accepted(misplaced), holds) << to_text(misplaced.schedule);
    (holds ? valid : broken) += 1;
    misplaced_transfers += !holds;
  }
  EXPECT_GE(misplaced_transfers, 300);
  // Ranks that wait for each other: the list of each is in order, and none can go on.
  for (int trial = 0; trial < 5000; ++trial) {
    Case crossed = random_case(random);
    Schedule& schedule = crossed.schedule;
    const Schedule original = schedule;
    auto& actions = random_list(random, schedule);
    std::vector<size_t> sends;
    for (size_t i = 0; i < actions.size(); ++i)
      if (actions[i].kind == K::SendActivation || actions[i].kind == K::SendGradient) sends.push_back(i);
    if (sends.empty()) continue;
    const size_t from = sends[static_cast<size_t>(pick(random, 0, static_cast<int>(sends.size()) - 1))];
    const Action send = actions[from];
    actions.erase(actions.begin() + static_cast<ptrdiff_t>(from));
    // Behind all others of its direction, so that the receiver's list can be put in the same order.
    actions.push_back(send);
    const bool forward = send.kind == K::SendActivation;
    const int to = forward ? send.stage + 1 : send.stage - 1;
    auto& receiver = schedule.by_rank[static_cast<size_t>(schedule.rank_of_stage[static_cast<size_t>(to)])];
    const Action receive{forward ? K::ReceiveActivation : K::ReceiveGradient, to, -1, send.microbatch};
    const auto at = std::ranges::find(receiver, receive);
    // The receive moves down as far as the work that needs it allows.
    const auto user = std::find_if(at, receiver.end(), [&](const Action& a) {
      return a.stage == to && a.microbatch == send.microbatch &&
             (forward ? is_forward(a.kind) : starts_backward(a.kind));
    });
    std::rotate(at, at + 1, user);
    const bool expected = Rules(crossed).hold(original);
    const std::string said = problem(crossed);
    ASSERT_EQ(said.empty(), expected) << to_text(schedule) << said;
    cycles += said.find("waits for ever") != std::string::npos;
    (expected ? valid : broken) += 1;
  }
  EXPECT_GE(valid + broken, 10000);
  EXPECT_GE(valid, 2500);
  EXPECT_GE(cycles, 500);
  EXPECT_GE(pairs, 500);
  std::printf("%d valid, %d broken, of these %d of ranks that wait for each other\n", valid, broken, cycles);
}

// What moves alone: each misplaced O and L is refused with what is wrong with it.
TEST(ValidateProperty, WhatLeavesMustBeBack) {
  const auto said = [](const char* text) {
    try {
      validate(schedule_from_text(text), {.units_of_stage = {1}});
      return std::string();
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  EXPECT_EQ(said("0F0 0O0 0F1 0L0 0B1 0B0"), "");
  EXPECT_EQ(said("0K0 0O0 0F1 0L0 0B1 0C0 0B0"), "");
  const std::pair<const char*, const char*> refused[] = {
      {"0O0 0F0 0F1 0L0 0B1 0B0", ">>0O0<<"},
      {"0F0 0O0 0F1 0B1 0B0", "what its forward left is away"},
      {"0F0 0O0 0F1 0B1 0B0 0L0", "what its forward left is away"},
      {"0K0 0O0 0F1 0B1 0C0 0L0 0B0", "its input is away"},
      {"0F0 0O0 0L0 0F1 0B1 0B0", "it leaves beside the next work, and there is none between"},
      {"0F0 0F1 0L0 0B1 0B0", "it has not left"},
      {"0F0 0O0 0O0 0F1 0L0 0B1 0B0", "it has left already"},
      {"0F0 0O0 0F1 0L0 0L0 0B1 0B0", "it is back already"},
      {"0F0 0O0 0F1 0L0 0B1 0O0 0L0 0B0", "it has left already"},
      {"0F0 0F1 0B1 0B0 0O0", "its backward has begun"},
      {"0K0 0F1 0B1 0C0 0O0 0B0", "its backward has begun"},
  };
  for (const auto& [text, reason] : refused) EXPECT_NE(said(text).find(reason), std::string::npos) << text;
  EXPECT_THROW(validate(schedule_from_text("0F0 0O0"), {.units_of_stage = {1}, .forward_only = true}), Error);
}

TEST(ValidateProperty, ACyclicWaitIsNamedWithBothCells) {
  // Each rank is in order by itself; rank 0 wants the gradient before it makes what rank 1 needs for it.
  const Schedule schedule = schedule_from_text(
      "0F0 0SA0 0RG1 0B1 0F1 0SA1 0RG0 0B0\n"
      "1RA0 1F0 1RA1 1F1 1B1 1SG1 1B0 1SG0\n");
  try {
    validate(schedule, {.units_of_stage = {1, 1}});
    FAIL();
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find(">>0B1<<"), std::string::npos) << text;
    EXPECT_NE(text.find("[1F1]"), std::string::npos) << text;
    EXPECT_NE(text.find("it waits for ever for 1SG1 of rank 1"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace tessera
