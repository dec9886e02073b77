// SPDX-License-Identifier: Apache-2.0
#include "framework/parallel/pipeline/validate_parts.h"
#include "framework/parallel/pipeline/walk.h"

namespace tessera {
namespace {

using Kind = ActionKind;

class Order {
 public:
  Order(const Schedule& schedule, const ValidationSizes& sizes, const Refusal& refusal)
      : schedule_(schedule),
        sizes_(sizes),
        refusal_(refusal),
        index_(sizes, schedule.microbatches),
        done_(index_.cells(), 0),
        passed_(index_.cells(), 0),
        given_up_(index_.cells(), 0),
        worked_(schedule.by_rank.size(), 0),
        reached_(schedule.by_rank.size(), 0) {}

  void run() {
    walk(schedule_, [&](int rank, size_t at) { return step(static_cast<size_t>(rank), at); });
    for (size_t rank = 0; rank < reached_.size(); ++rank)
      if (reached_[rank] == schedule_.by_rank[rank].size()) check_complete(rank);
    for (size_t rank = 0; rank < reached_.size(); ++rank) {
      if (reached_[rank] == schedule_.by_rank[rank].size()) continue;
      const Action other = awaited(*waiting(rank));
      refusal_.at(rank, reached_,
                  fmt::format("it waits for ever for {} of rank {}", to_text(other), rank_of(other.stage)));
    }
  }

 private:
  int units(int stage) const { return sizes_.units_of_stage[static_cast<size_t>(stage)]; }
  int rank_of(int stage) const { return schedule_.rank_of_stage[static_cast<size_t>(stage)]; }

  // What has happened: a bit a kind, by unit and micro-batch; of messages by the stage's first unit.
  static_assert(static_cast<unsigned>(Kind::Reload) < 16);
  static uint16_t bit(Kind kind) { return static_cast<uint16_t>(1u << static_cast<unsigned>(kind)); }
  bool did(std::initializer_list<Kind> any, int stage, int unit, int m) const {
    for (const Kind kind : any)
      if (done_[index_.cell(stage, unit, m)] & bit(kind)) return true;
    return false;
  }
  bool passed(Kind kind, int stage, int m) const { return passed_[index_.cell(stage, 0, m)] & bit(kind); }
  bool forward_done(int stage, int unit, int m) const {
    return did({Kind::Forward, Kind::ForwardKeepingInput}, stage, unit, m);
  }
  bool input_done(int stage, int unit, int m) const {
    return did({Kind::Backward, Kind::BackwardInput}, stage, unit, m);
  }
  bool weights_done(int stage, int unit, int m) const {
    return did({Kind::Backward, Kind::BackwardWeight}, stage, unit, m);
  }

  // False: the rank must wait for another.
  bool step(size_t rank, size_t at) {
    const Action& a = schedule_.by_rank[rank][at];
    std::string problem;
    if (is_work(a.kind)) {
      problem = own_source_problem(a);
      if (problem.empty() && waiting(rank)) return false;
      if (problem.empty()) problem = units_of(a);
      ++worked_[rank];
    } else if (is_transfer(a.kind)) {
      problem = units_of(a);
    } else if (is_message(a.kind)) {
      problem = message(a);
    }
    if (!problem.empty()) refusal_.at(rank, reached_, problem);
    ++reached_[rank];
    return true;
  }

  // The stage whose output or gradient an action starts from, or -1.
  int source(const Action& a) const {
    if (is_forward(a.kind) && a.unit <= 0) return a.stage - 1;
    const bool top = a.unit < 0 || a.unit + 1 == units(a.stage);
    return starts_backward(a.kind) && top && a.stage + 1 < schedule_.stages ? a.stage + 1 : -1;
  }
  bool made(const Action& a, int from) const {
    return is_forward(a.kind) ? forward_done(from, units(from) - 1, a.microbatch)
                              : input_done(from, 0, a.microbatch);
  }
  // What an action that starts from another rank's work waits for.
  Action awaited(const Action& a) const {
    Kind kind = is_forward(a.kind) ? Kind::Forward : Kind::Backward;
    if (sizes_.messages) kind = is_forward(a.kind) ? Kind::SendActivation : Kind::SendGradient;
    return {kind, source(a), -1, a.microbatch};
  }
  bool waits(const Action& a) const {
    const int from = source(a);
    if (from < 0 || rank_of(from) == rank_of(a.stage)) return false;
    return sizes_.messages ? !passed(awaited(a).kind, from, a.microbatch) : !made(a, from);
  }

  // What the next action of a rank, or the one that runs together with it, has to wait with.
  const Action* waiting(size_t rank) const {
    const auto& actions = schedule_.by_rank[rank];
    const size_t at = reached_[rank];
    for (size_t i = at; i < at + length_of_step(actions, at); ++i)
      if (own_source_problem(actions[i]).empty() && waits(actions[i])) return &actions[i];
    return nullptr;
  }

  std::string own_source_problem(const Action& a) const {
    const int from = source(a);
    if (from < 0) return {};
    const bool forward = is_forward(a.kind);
    if (rank_of(from) == rank_of(a.stage)) {
      if (made(a, from)) return {};
      return forward ? "the stage below has not run" : "the stage above has no gradient yet";
    }
    const Kind receive = forward ? Kind::ReceiveActivation : Kind::ReceiveGradient;
    if (!sizes_.messages || passed(receive, a.stage, a.microbatch)) return {};
    return forward ? "its input is not received before" : "its gradient is not received before";
  }

  // A whole stage is its units, one after the other.
  std::string units_of(const Action& a) {
    if (a.unit >= 0) return unit(a);
    const int count = units(a.stage);
    for (int i = 0; i < count; ++i) {
      Action piece = a;
      piece.unit = is_forward(a.kind) || a.kind == Kind::Recompute ? i : count - 1 - i;
      if (std::string problem = unit(piece); !problem.empty()) return problem;
    }
    return {};
  }
  std::string unit(const Action& a) {
    const size_t cell = index_.cell(a.stage, a.unit, a.microbatch);
    std::string problem = is_transfer(a.kind) ? transfer_problem(a.kind, a.stage, a.unit, a.microbatch)
                                              : unit_problem(a.kind, a.stage, a.unit, a.microbatch);
    done_[cell] |= bit(a.kind);
    // The work behind it, of whatever unit, goes on while it leaves.
    if (a.kind == Kind::Offload) given_up_[cell] = worked_[static_cast<size_t>(rank_of(a.stage))] + 1;
    return problem;
  }
  bool is_away(int s, int u, int m) const {
    return did({Kind::Offload}, s, u, m) && !did({Kind::Reload}, s, u, m);
  }
  std::string transfer_problem(Kind kind, int s, int u, int m) const {
    if (kind == Kind::Offload) {
      if (!forward_done(s, u, m)) return "its forward has not run";
      if (did({Kind::Recompute}, s, u, m) || input_done(s, u, m)) return "its backward has begun";
      return did({kind}, s, u, m) ? "it has left already" : "";
    }
    if (!did({Kind::Offload}, s, u, m)) return "it has not left";
    if (did({kind}, s, u, m)) return "it is back already";
    const bool left = worked_[static_cast<size_t>(rank_of(s))] >= given_up_[index_.cell(s, u, m)];
    return left ? "" : "it leaves beside the next work, and there is none between";
  }
  std::string unit_problem(Kind kind, int s, int u, int m) const {
    switch (kind) {
      case Kind::Forward:
      case Kind::ForwardKeepingInput:
        if (forward_done(s, u, m)) return "its forward ran already";
        return u > 0 && !forward_done(s, u - 1, m) ? "the unit below has not run" : "";
      case Kind::Recompute:
        if (!did({Kind::ForwardKeepingInput}, s, u, m)) return "there is no input to recompute it from";
        if (did({kind}, s, u, m)) return "it is recomputed already";
        if (is_away(s, u, m)) return "its input is away";
        return u > 0 && !did({kind}, s, u - 1, m) ? "the unit below is not recomputed" : "";
      case Kind::Backward:
      case Kind::BackwardInput:
        if (!did({Kind::Forward, Kind::Recompute}, s, u, m))
          return forward_done(s, u, m) ? "it is not recomputed" : "its forward has not run";
        if (input_done(s, u, m)) return "its backward ran already";
        if (is_away(s, u, m)) return "what its forward left is away";
        return u + 1 < units(s) && !input_done(s, u + 1, m) ? "the unit above has no gradient yet" : "";
      default:
        if (weights_done(s, u, m)) return "its weight gradient ran already";
        return did({Kind::BackwardInput}, s, u, m) ? "" : "its input gradient has not run";
    }
  }

  std::string message(const Action& a) {
    const int m = a.microbatch;
    if (passed(a.kind, a.stage, m)) return "it is done twice";
    if (a.kind == Kind::SendActivation && !forward_done(a.stage, units(a.stage) - 1, m))
      return "its forward has not run";
    if (a.kind == Kind::SendGradient && !input_done(a.stage, 0, m)) return "its backward has not run";
    passed_[index_.cell(a.stage, 0, m)] |= bit(a.kind);
    return {};
  }

  void check_complete(size_t rank) const {
    for (int stage = 0; stage < schedule_.stages; ++stage) {
      if (static_cast<size_t>(rank_of(stage)) != rank) continue;
      for (int m = 0; m < schedule_.microbatches; ++m)
        for (int unit = 0; unit < units(stage); ++unit) {
          const bool forward = forward_done(stage, unit, m);
          if (forward && (sizes_.forward_only || weights_done(stage, unit, m))) continue;
          const char* kind = !forward ? "F" : input_done(stage, unit, m) ? "W" : "B";
          refusal_.at(rank, reached_, fmt::format("{}{}{}.{} is missing", stage, kind, m, unit));
        }
    }
  }

  const Schedule& schedule_;
  const ValidationSizes& sizes_;
  const Refusal& refusal_;
  const UnitIndex index_;
  std::vector<uint16_t> done_, passed_;
  std::vector<size_t> given_up_;  // by unit and micro-batch: after how much work of its rank it has left
  std::vector<size_t> worked_;    // by rank: work so far
  std::vector<size_t> reached_;   // by rank: the next cell
};

}  // namespace

void check_order(const Schedule& schedule, const ValidationSizes& sizes, const Refusal& refusal) {
  Order(schedule, sizes, refusal).run();
}

}  // namespace tessera
