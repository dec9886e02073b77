// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <span>

#include "framework/base/check.h"
#include "framework/parallel/pipeline/passes.h"

namespace tessera {
namespace {

// Goes through the lists in ticks, in each of which a rank does at most one action, or two together, of those
// whose input was there when the tick began.
class MessagePlacer {
 public:
  explicit MessagePlacer(const Schedule& schedule)
      : schedule_(schedule),
        width_(static_cast<size_t>(schedule.microbatches)),
        forward_at_(static_cast<size_t>(schedule.stages) * width_, kNever),
        backward_at_(forward_at_),
        result_(schedule) {
    for (auto& actions : result_.by_rank) actions.clear();
  }

  Schedule run() {
    std::vector<size_t> next(schedule_.by_rank.size(), 0);
    for (int tick = 0;; ++tick) {
      std::vector<std::span<const Action>> now(next.size());
      for (size_t rank = 0; rank < next.size(); ++rank) {
        const auto& actions = schedule_.by_rank[rank];
        if (next[rank] == actions.size()) continue;
        const std::span<const Action> step(&actions[next[rank]], length_of_step(actions, next[rank]));
        if (!std::ranges::all_of(step, [&](const Action& action) { return there(action, tick); })) continue;
        now[rank] = step;
        next[rank] += step.size();
      }
      if (std::ranges::all_of(now, [](std::span<const Action> step) { return step.empty(); })) break;
      for (const std::span<const Action> step : now)
        for (const Action& action : step) pass_on(action, tick);
      for (size_t rank = 0; rank < now.size(); ++rank) append(rank, now[rank]);
    }
    for (size_t rank = 0; rank < next.size(); ++rank)
      CHECK(next[rank] == schedule_.by_rank[rank].size(), "rank {} waits for ever at {}", rank,
            to_text(schedule_.by_rank[rank][next[rank]]));
    return std::move(result_);
  }

 private:
  static constexpr int kNever = 1 << 30;

  size_t cell(int stage, int m) const { return static_cast<size_t>(stage) * width_ + static_cast<size_t>(m); }
  size_t rank_of(int stage) const {
    return static_cast<size_t>(schedule_.rank_of_stage[static_cast<size_t>(stage)]);
  }

  bool there(const Action& a, int tick) const {
    CHECK(a.unit < 0 && !is_message(a.kind), "messages are placed once, between whole stages, found {}",
          to_text(a));
    if (is_forward(a.kind) && a.stage > 0) return forward_at_[cell(a.stage - 1, a.microbatch)] < tick;
    if (starts_backward(a.kind) && a.stage + 1 < schedule_.stages)
      return backward_at_[cell(a.stage + 1, a.microbatch)] < tick;
    return true;
  }

  // The receive of what an action makes goes before what the receiver does in the same tick.
  void pass_on(const Action& a, int tick) {
    if (is_forward(a.kind)) forward_at_[cell(a.stage, a.microbatch)] = tick;
    if (starts_backward(a.kind)) backward_at_[cell(a.stage, a.microbatch)] = tick;
    if (const auto send = send_of(a)) {
      const Action receive = receive_of(*send);
      result_.by_rank[rank_of(receive.stage)].push_back(receive);
    }
  }

  void append(size_t rank, std::span<const Action> step) {
    auto& list = result_.by_rank[rank];
    list.insert(list.end(), step.begin(), step.end());
    for (const Action& action : step)
      if (const auto send = send_of(action)) list.push_back(*send);
  }

  // The message of what an action makes for a stage on another rank.
  std::optional<Action> send_of(const Action& a) const {
    Action send{ActionKind::SendActivation, a.stage, -1, a.microbatch};
    if (starts_backward(a.kind) && a.stage > 0)
      send.kind = ActionKind::SendGradient;
    else if (!is_forward(a.kind) || a.stage + 1 == schedule_.stages)
      return {};
    if (rank_of(other_end(send)) == rank_of(a.stage)) return {};
    return send;
  }

  const Schedule& schedule_;
  size_t width_;
  std::vector<int> forward_at_, backward_at_;  // tick, by stage and micro-batch
  Schedule result_;
};

}  // namespace

Schedule with_messages(const Schedule& schedule) {
  return MessagePlacer(schedule).run();
}

}  // namespace tessera
