// SPDX-License-Identifier: Apache-2.0
#include "framework/parallel/pipeline/simulate.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "framework/base/check.h"
#include "framework/parallel/pipeline/live_bytes.h"
#include "framework/parallel/pipeline/walk.h"

namespace tessera {
namespace {

constexpr double kNotYet = -1;

// Times of one kind of message, by receiving stage and micro-batch.
struct Arrivals {
  Arrivals(int stages, int microbatches)
      : width(static_cast<size_t>(microbatches)),
        sent(static_cast<size_t>(stages) * width, kNotYet),
        posted(sent),
        there(sent) {}
  size_t index(int stage, int microbatch) const {
    return static_cast<size_t>(stage) * width + static_cast<size_t>(microbatch);
  }
  size_t width;
  std::vector<double> sent, posted, there;
};

class Simulator {
 public:
  Simulator(const Schedule& schedule, const CostModel& costs)
      : schedule_(schedule),
        costs_(costs),
        activations_(schedule.stages, schedule.microbatches),
        gradients_(schedule.stages, schedule.microbatches),
        clock_(schedule.by_rank.size()),
        collectives_(schedule.by_rank.size()),
        stores_(schedule.by_rank.size()),
        live_(schedule.by_rank.size(), LiveBytes(costs)) {
    result_.ranks.resize(schedule.by_rank.size());
    result_.work.resize(schedule.by_rank.size());
    for (const auto& actions : schedule.by_rank)
      messages_ |= std::ranges::any_of(actions, [](const Action& a) { return is_message(a.kind); });
  }

  Simulation run() {
    const auto reached = walk(schedule_, [&](int rank, size_t at) { return step(rank, at); });
    for (size_t rank = 0; rank < reached.size(); ++rank) {
      const auto& actions = schedule_.by_rank[rank];
      CHECK(reached[rank] == actions.size(), "rank {} waits for ever at {}", rank,
            to_text(actions[reached[rank]]));
      finish(rank);
    }
    return std::move(result_);
  }

 private:
  bool same_rank(int stage, int other) const { return rank_of(stage) == rank_of(other); }
  int rank_of(int stage) const { return schedule_.rank_of_stage[static_cast<size_t>(stage)]; }

  bool step(int rank, size_t at) {
    const auto r = static_cast<size_t>(rank);
    const Action& action = schedule_.by_rank[r][at];
    switch (action.kind) {
      case ActionKind::SendActivation:
        message(activations_, action.stage + 1, action.microbatch, rank, &Arrivals::sent);
        return true;
      case ActionKind::SendGradient:
        message(gradients_, action.stage - 1, action.microbatch, rank, &Arrivals::sent);
        return true;
      case ActionKind::ReceiveActivation:
        live_[r].apply(action, false);
        message(activations_, action.stage, action.microbatch, rank, &Arrivals::posted);
        return true;
      case ActionKind::ReceiveGradient:
        live_[r].apply(action, false);
        message(gradients_, action.stage, action.microbatch, rank, &Arrivals::posted);
        return true;
      case ActionKind::GatherParameters:
        gathered_[{action.stage, action.unit}] = collective(r, costs_.gather);
        return true;
      case ActionKind::ReduceGradients:
      case ActionKind::ReduceTied:
        collective(r, costs_.reduce);
        return true;
      case ActionKind::DropParameters:
        return true;
      case ActionKind::Offload:
        stores_[r].leaving = transfer(r, action);
        result_.ranks[r].offloaded_bytes += live_[r].left_by(action);
        live_[r].apply(action, false);
        return true;
      case ActionKind::Reload:
        stores_[r].back[{action.stage, action.unit, action.microbatch}] = transfer(r, action);
        live_[r].apply(action, false);
        return true;
      default:
        return work(r, at);
    }
  }

  double collective(size_t rank, double seconds) {
    return collectives_[rank] = std::max(collectives_[rank], clock_[rank]) + seconds;
  }

  // When the store, which moves one thing at a time, will have moved this.
  double transfer(size_t rank, const Action& action) {
    double& free_at = stores_[rank].free_at;
    const double seconds = costs_.store * static_cast<double>(live_[rank].left_by(action));
    return free_at = std::max(free_at, clock_[rank]) + seconds;
  }

  // One end of a message is reached. The second end of the two starts it.
  void message(Arrivals& arrivals, int stage, int microbatch, int rank, std::vector<double> Arrivals::*end) {
    const auto r = static_cast<size_t>(rank);
    const size_t i = arrivals.index(stage, microbatch);
    (arrivals.*end)[i] = clock_[r];
    clock_[r] += costs_.message_busy;
    if (arrivals.sent[i] == kNotYet || arrivals.posted[i] == kNotYet) return;
    const int neighbour = &arrivals == &activations_ ? stage - 1 : stage + 1;
    double& free_at = channels_[{rank_of(neighbour), rank_of(stage)}];
    free_at = std::max({free_at, arrivals.sent[i], arrivals.posted[i]}) + costs_.message;
    arrivals.there[i] = free_at;
  }

  bool is_first(const Action& a) const { return a.unit <= 0; }
  bool is_last(const Action& a) const { return a.unit < 0 || a.unit + 1 == costs_.units(a.stage); }

  // Where and from which stage the input of work comes, if from another.
  struct Source {
    const Arrivals* arrivals = nullptr;
    int stage = -1;
  };
  Source source(const Action& a) const {
    if (is_forward(a.kind) && is_first(a) && a.stage > 0) return {&activations_, a.stage - 1};
    if (starts_backward(a.kind) && is_last(a) && a.stage + 1 < schedule_.stages)
      return {&gradients_, a.stage + 1};
    return {};
  }

  // When what work starts from is there; nothing if that is not known yet.
  std::optional<double> ready(const Action& action) const {
    double time = 0;
    if (const Source from = source(action); from.arrivals) {
      time = from.arrivals->there[from.arrivals->index(action.stage, action.microbatch)];
      if (time == kNotYet) return {};
    }
    const auto gathered = gathered_.find({action.stage, action.unit});
    if (gathered != gathered_.end()) time = std::max(time, gathered->second);
    const auto& back = stores_[static_cast<size_t>(rank_of(action.stage))].back;
    const auto read = back.find({action.stage, action.unit, action.microbatch});
    return read == back.end() ? time : std::max(time, read->second);
  }

  // Of two together the first waits for both, and its output leaves when both have ended. No collective takes
  // time here in which one could go on while the other waits.
  bool work(size_t rank, size_t at) {
    const auto& actions = schedule_.by_rank[rank];
    const Action& action = actions[at];
    const int stage = action.stage, m = action.microbatch;
    double start = clock_[rank], beside = 0;
    for (size_t i = at; i < at + length_of_step(actions, at); ++i) {
      const std::optional<double> there = ready(actions[i]);
      if (!there) return false;
      start = std::max(start, *there);
      if (i > at) beside = costs_.seconds(actions[i]);
    }

    // Only the end of both of a pair is a moment at which anything is given up.
    const bool counts = length_of_step(actions, at) == 1;
    const double end = start + costs_.seconds(action), leaves = end + beside;
    clock_[rank] = counts ? std::max(end, std::exchange(stores_[rank].leaving, 0)) : end;
    if (is_forward(action.kind) && is_last(action) && stage + 1 < schedule_.stages)
      hand_over(activations_, stage, stage + 1, m, leaves);
    if (starts_backward(action.kind) && is_first(action) && stage > 0)
      hand_over(gradients_, stage, stage - 1, m, leaves);
    const Source from = source(action);
    live_[rank].apply(action, messages_ && from.arrivals && !same_rank(stage, from.stage), counts);
    result_.ranks[rank].busy += end - start;
    result_.work[rank].push_back({action, start, end});
    return true;
  }

  // A message of the list, if there are any, carries it to another rank.
  void hand_over(Arrivals& arrivals, int from, int to, int microbatch, double end) {
    const bool local = same_rank(from, to);
    if (local || !messages_)
      arrivals.there[arrivals.index(to, microbatch)] = end + (local ? 0 : costs_.message);
  }

  void finish(size_t rank) {
    RankUse& use = result_.ranks[rank];
    use.start = result_.work[rank].empty() ? 0 : result_.work[rank].front().start;
    use.end = std::max(clock_[rank], collectives_[rank]);
    use.peak_bytes = live_[rank].peak();
  }

  // A rank's store of activations.
  struct Store {
    double free_at = 0;
    double leaving = 0;                                // when what is given up after the next work is written
    std::map<std::tuple<int, int, int>, double> back;  // (stage, unit, micro-batch): read
  };

  const Schedule& schedule_;
  const CostModel& costs_;
  bool messages_ = false;
  Arrivals activations_, gradients_;
  std::map<std::pair<int, int>, double> channels_;  // (from, to) rank: free again
  std::map<std::pair<int, int>, double> gathered_;  // (stage, unit): there
  std::vector<double> clock_, collectives_;
  std::vector<Store> stores_;
  std::vector<LiveBytes> live_;
  Simulation result_;
};

}  // namespace

Simulation simulate(const Schedule& schedule, const CostModel& costs) {
  CHECK(schedule.stages == costs.stages(), "a schedule of {} stages, costs of {}", schedule.stages,
        costs.stages());
  return Simulator(schedule, costs).run();
}

double Simulation::seconds() const {
  return std::ranges::max(ranks, {}, &RankUse::end).end;
}

double Simulation::longest_rank() const {
  double longest = 0;
  for (const RankUse& rank : ranks) longest = std::max(longest, rank.end - rank.start);
  return longest;
}

int64_t Simulation::peak_bytes() const {
  return std::ranges::max(ranks, {}, &RankUse::peak_bytes).peak_bytes;
}

namespace {
double idle_share(const std::vector<RankUse>& ranks, double seconds) {
  double busy = 0;
  for (const RankUse& rank : ranks) busy += rank.busy;
  return 1 - busy / (seconds * static_cast<double>(ranks.size()));
}
}  // namespace

double Simulation::bubble() const {
  return idle_share(ranks, seconds());
}
double Simulation::bubble_without_agreement() const {
  return idle_share(ranks, longest_rank());
}

}  // namespace tessera
