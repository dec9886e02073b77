// SPDX-License-Identifier: Apache-2.0
#include "framework/parallel/pipeline/fill.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <optional>
#include <queue>

#include "framework/base/check.h"

namespace tessera {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::infinity();

struct RankState {
  std::vector<Action> order;
  std::vector<bool> done;      // of order
  size_t next = 0;             // first of order that is not done
  std::deque<Action> weights;  // input gradient done, weight gradient not
  size_t streams = 0;          // two, F and I, for each of its stages
  int64_t live = 0;            // bytes
  int64_t held = 0;            // of these, by what has no input gradient yet
  double free_at = 0;
};

class Filler {
 public:
  Filler(const Schedule& order, const CostModel& costs, const FillOptions& options)
      : costs_(costs), options_(options), result_(order) {
    const auto cells = static_cast<size_t>(order.stages) * static_cast<size_t>(order.microbatches);
    forward_at_.assign(cells, kUnknown);
    backward_at_.assign(cells, kUnknown);
    for (int m = 0; m < order.microbatches; ++m) forward_at_[cell(0, m)] = 0;
    for (auto& actions : result_.by_rank) {
      ranks_.push_back({.order = std::move(actions), .done = {}, .weights = {}});
      ranks_.back().done.resize(ranks_.back().order.size());
      actions.clear();
    }
    for (const int rank : order.rank_of_stage) ranks_[static_cast<size_t>(rank)].streams += 2;
  }

  Schedule run() {
    for (size_t rank = 0; rank < ranks_.size(); ++rank) looks_.push({0, rank});
    while (!looks_.empty()) {
      const auto [time, rank] = looks_.top();
      looks_.pop();
      RankState& state = ranks_[rank];
      if (state.free_at > time) continue;
      if (const auto action = choose(state, options_.bytes, time)) start(rank, *action, time);
    }
    for (const RankState& state : ranks_)
      CHECK(state.next == state.order.size() && state.weights.empty(),
            "an order that cannot run, or not within its memory, was to be filled");
    return std::move(result_);
  }

 private:
  size_t cell(int stage, int m) const {
    return static_cast<size_t>(stage) * static_cast<size_t>(result_.microbatches) + static_cast<size_t>(m);
  }
  double there(const Action& a) const {
    return (a.kind == ActionKind::Forward ? forward_at_ : backward_at_)[cell(a.stage, a.microbatch)];
  }
  int64_t saved(const Action& a) const { return costs_.of(a.stage, -1).saved; }

  std::optional<Action> choose(RankState& state, int64_t limit, double time) {
    const auto weight = [&]() -> std::optional<Action> {
      if (state.weights.empty()) return {};
      return state.weights.front();
    };
    if (state.next == state.order.size()) return weight();
    const Action& next = state.order[state.next];
    if (there(next) <= time) {
      const bool fits = next.kind != ActionKind::Forward || state.live + saved(next) <= limit;
      if (fits) return take(state, state.next);
      return weight();
    }
    const bool nobody_waits = next.kind == ActionKind::BackwardInput && next.stage == 0;
    const double gap = nobody_waits ? kUnknown : there(next) - time;
    const auto worth = [&](const Action& a, double patience) { return gap >= patience * costs_.seconds(a); };
    if (const auto other = later_work(state, limit, time);
        other && worth(state.order[*other], options_.forward_patience))
      return take(state, *other);
    const bool last = options_.wait_for_last && next.microbatch + 1 == result_.microbatches;
    if (const auto w = weight(); w && worth(*w, last ? 1 : options_.weight_patience)) return w;
    return {};
  }

  // The first later I that is there, or else the first later F that leaves room for the F before it. Of each
  // stage, F and I come in order: behind the first that is not there none is.
  std::optional<size_t> later_work(const RankState& state, int64_t limit, double time) const {
    std::optional<size_t> forward;
    int64_t held = state.held, most = held;
    std::vector<std::pair<int, ActionKind>> absent;
    for (size_t i = state.next; i < state.order.size() && most < limit; ++i) {
      if (state.done[i]) continue;
      const Action& a = state.order[i];
      const bool is_there = there(a) <= time;
      if (!is_there && std::ranges::find(absent, std::pair(a.stage, a.kind)) == absent.end()) {
        absent.emplace_back(a.stage, a.kind);
        if (absent.size() == state.streams) break;
      }
      if (a.kind == ActionKind::BackwardInput) {
        if (is_there) return i;
        held -= saved(a);
        continue;
      }
      if (!forward && is_there && std::max(most, state.live) + saved(a) <= limit) forward = i;
      held += saved(a);
      most = std::max(most, held);
    }
    return forward;
  }

  Action take(RankState& state, size_t i) {
    state.done[i] = true;
    const Action action = state.order[i];
    while (state.next < state.order.size() && state.done[state.next]) ++state.next;
    return action;
  }

  void start(size_t rank, const Action& action, double time) {
    RankState& state = ranks_[rank];
    const WorkCost& cost = costs_.of(action.stage, -1);
    const int m = action.microbatch;
    result_.by_rank[rank].push_back(action);
    state.free_at = time + costs_.seconds(action);
    looks_.push({state.free_at, rank});
    if (action.kind == ActionKind::Forward) {
      state.live += cost.saved;
      state.held += cost.saved;
      const bool top = action.stage + 1 == result_.stages;
      arrive(top ? backward_at_ : forward_at_, action.stage, top ? action.stage : action.stage + 1, m, state);
    } else if (action.kind == ActionKind::BackwardInput) {
      state.live += cost.saved_for_weight - cost.saved;
      state.held -= cost.saved;
      state.weights.push_back({ActionKind::BackwardWeight, action.stage, -1, m});
      if (action.stage > 0) arrive(backward_at_, action.stage, action.stage - 1, m, state);
    } else {
      state.live -= cost.saved_for_weight;
      state.weights.pop_front();
    }
  }

  void arrive(std::vector<double>& at, int from, int to, int m, const RankState& sender) {
    const int rank = result_.rank_of_stage[static_cast<size_t>(to)];
    const bool local = rank == result_.rank_of_stage[static_cast<size_t>(from)];
    const double time = sender.free_at + (local ? 0 : costs_.message);
    at[cell(to, m)] = time;
    looks_.push({time, static_cast<size_t>(rank)});
  }

  using Look = std::pair<double, size_t>;  // time, rank
  const CostModel& costs_;
  const FillOptions& options_;
  Schedule result_;
  std::vector<RankState> ranks_;
  std::vector<double> forward_at_, backward_at_;  // input there, by cell; kUnknown while nobody works on it
  std::priority_queue<Look, std::vector<Look>, std::greater<>> looks_;
};

}  // namespace

Schedule filled(const Schedule& order, const CostModel& costs, const FillOptions& options) {
  return Filler(order, costs, options).run();
}

}  // namespace tessera
