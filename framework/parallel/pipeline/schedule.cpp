// SPDX-License-Identifier: Apache-2.0
#include "framework/parallel/pipeline/schedule.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <sstream>

#include "framework/base/check.h"

namespace tessera {
namespace {

constexpr std::string_view kLetters = "FIWBR";

bool finishes_weights(ActionKind kind) {
  return kind == ActionKind::Backward || kind == ActionKind::BackwardWeight;
}

Schedule repeated(int microbatches, std::initializer_list<ActionKind> kinds) {
  CHECK(microbatches >= 1, "a schedule needs at least one micro-batch, got {}", microbatches);
  Schedule schedule{.stages = 1, .microbatches = microbatches, .by_rank = {{}}};
  for (int m = 0; m < microbatches; ++m)
    for (const ActionKind kind : kinds) schedule.by_rank[0].push_back({.kind = kind, .microbatch = m});
  return schedule;
}

template <class F>
Schedule rewritten(const Schedule& schedule, F&& append) {
  Schedule result{.stages = schedule.stages, .microbatches = schedule.microbatches, .by_rank = {}};
  for (const auto& actions : schedule.by_rank) {
    auto& list = result.by_rank.emplace_back();
    for (const Action& action : actions) append(action, list);
  }
  return result;
}

}  // namespace

Schedule one_stage(int microbatches) {
  return repeated(microbatches, {ActionKind::Forward, ActionKind::Backward});
}

Schedule forward_only(int microbatches) {
  return repeated(microbatches, {ActionKind::Forward});
}

Schedule with_units(const Schedule& schedule, const std::vector<int>& units_of_stage) {
  return rewritten(schedule, [&](const Action& action, std::vector<Action>& list) {
    if (action.unit >= 0 || action.kind == ActionKind::ReduceGradients) {
      list.push_back(action);
      return;
    }
    const int units = units_of_stage.at(static_cast<size_t>(action.stage));
    for (int i = 0; i < units; ++i) {
      Action piece = action;
      piece.unit = action.kind == ActionKind::Forward ? i : units - 1 - i;
      list.push_back(piece);
    }
  });
}

Schedule with_gradient_reduction(const Schedule& schedule,
                                 const std::vector<std::vector<int>>& bucket_first_unit) {
  return rewritten(schedule, [&](const Action& action, std::vector<Action>& list) {
    list.push_back(action);
    if (!finishes_weights(action.kind) || action.microbatch != schedule.microbatches - 1) return;
    const auto& buckets = bucket_first_unit.at(static_cast<size_t>(action.stage));
    for (size_t bucket = 0; bucket < buckets.size(); ++bucket)
      if (action.unit == -1 || buckets[bucket] == action.unit)
        list.push_back({.kind = ActionKind::ReduceGradients,
                        .stage = action.stage,
                        .unit = static_cast<int>(bucket),
                        .microbatch = action.microbatch});
  });
}

std::string to_text(const Action& action) {
  std::string text =
      fmt::format("{}{}{}", action.stage, kLetters[static_cast<size_t>(action.kind)], action.microbatch);
  if (action.unit >= 0) text += fmt::format(".{}", action.unit);
  return text;
}

std::string to_text(const Schedule& schedule) {
  std::string text;
  for (const auto& actions : schedule.by_rank) {
    for (size_t i = 0; i < actions.size(); ++i) text += (i ? " " : "") + to_text(actions[i]);
    text += "\n";
  }
  return text;
}

Schedule schedule_from_text(std::string_view text) {
  Schedule schedule{.stages = 0, .microbatches = 0, .by_rank = {}};
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    auto& actions = schedule.by_rank.emplace_back();
    std::istringstream words(line);
    for (std::string word; words >> word;) {
      const auto bad = [&] { fail(ExitCode::Usage, "'{}' is not an action such as 0F3 or 0B3.1", word); };
      const char* at = word.data();
      const char* const end = word.data() + word.size();
      const auto number = [&](int& value) {
        const auto [next, error] = std::from_chars(at, end, value);
        if (error != std::errc() || value < 0) bad();
        at = next;
      };
      Action action{.kind = ActionKind::Forward};
      number(action.stage);
      const size_t kind = at == end ? std::string_view::npos : kLetters.find(*at++);
      if (kind == std::string_view::npos) bad();
      action.kind = static_cast<ActionKind>(kind);
      number(action.microbatch);
      if (at != end) {
        if (*at++ != '.') bad();
        number(action.unit);
        if (at != end) bad();
      }
      schedule.stages = std::max(schedule.stages, action.stage + 1);
      schedule.microbatches = std::max(schedule.microbatches, action.microbatch + 1);
      actions.push_back(action);
    }
  }
  return schedule;
}

namespace {

// Walks one rank's list and keeps what has happened; refuses the first action that may not happen yet.
class RankValidator {
 public:
  RankValidator(const Schedule& schedule, const ValidationSizes& sizes)
      : schedule_(schedule), sizes_(sizes) {}

  void run(const std::vector<Action>& actions) {
    for (size_t i = 0; i < actions.size(); ++i) {
      const std::string problem = step(actions[i]);
      if (!problem.empty()) refuse(actions, i, problem);
    }
    const std::string missing = what_is_missing();
    if (!missing.empty()) refuse(actions, actions.size(), missing);
  }

 private:
  using Cell = std::tuple<ActionKind, int, int, int>;  // kind, stage, unit, micro-batch

  int units(int stage) const { return sizes_.units_of_stage[static_cast<size_t>(stage)]; }
  bool did(ActionKind kind, int stage, int unit, int m) const {
    return done_.contains({kind, stage, unit, m});
  }
  bool input_done(int stage, int unit, int m) const {
    return did(ActionKind::Backward, stage, unit, m) || did(ActionKind::BackwardInput, stage, unit, m);
  }
  bool weights_done(int stage, int unit, int m) const {
    return did(ActionKind::Backward, stage, unit, m) || did(ActionKind::BackwardWeight, stage, unit, m);
  }

  std::string step(const Action& a) {
    if (a.stage < 0 || a.stage >= static_cast<int>(sizes_.units_of_stage.size())) return "no such stage";
    if (a.microbatch < 0 || a.microbatch >= schedule_.microbatches) return "no such micro-batch";
    if (a.kind == ActionKind::ReduceGradients) return reduce(a);
    if (a.unit < 0 || a.unit >= units(a.stage)) return "no such unit";
    if (sizes_.forward_only && a.kind != ActionKind::Forward) return "a backward in a schedule of forwards";
    if (const std::string order = order_problem(a); !order.empty()) return order;
    if (!done_.insert({a.kind, a.stage, a.unit, a.microbatch}).second) return "it runs twice";
    return {};
  }

  std::string order_problem(const Action& a) const {
    const int s = a.stage, u = a.unit, m = a.microbatch;
    switch (a.kind) {
      case ActionKind::Forward:
        return u > 0 && !did(ActionKind::Forward, s, u - 1, m) ? "the unit below has not run" : "";
      case ActionKind::Backward:
      case ActionKind::BackwardInput:
        if (!did(ActionKind::Forward, s, u, m)) return "its forward has not run";
        if (input_done(s, u, m)) return "its backward ran already";
        return u + 1 < units(s) && !input_done(s, u + 1, m) ? "the unit above has no gradient yet" : "";
      case ActionKind::BackwardWeight:
        return did(ActionKind::BackwardInput, s, u, m) ? "" : "its input gradient has not run";
      case ActionKind::ReduceGradients:
        break;
    }
    return {};
  }

  std::string reduce(const Action& a) {
    const auto& buckets = sizes_.bucket_first_unit.at(static_cast<size_t>(a.stage));
    if (a.unit < 0 || a.unit >= static_cast<int>(buckets.size())) return "no such bucket";
    for (int m = 0; m < schedule_.microbatches; ++m)
      for (int unit = buckets[static_cast<size_t>(a.unit)]; unit < units(a.stage); ++unit)
        if (!weights_done(a.stage, unit, m)) return "its gradients are not final";
    return done_.insert({a.kind, a.stage, a.unit, 0}).second ? "" : "the bucket is reduced twice";
  }

  std::string what_is_missing() const {
    std::set<int> stages;
    for (const auto& [kind, stage, unit, m] : done_) stages.insert(stage);
    for (const int s : stages)
      for (int m = 0; m < schedule_.microbatches; ++m)
        for (int u = 0; u < units(s); ++u) {
          if (!did(ActionKind::Forward, s, u, m)) return fmt::format("{}F{}.{} is missing", s, m, u);
          if (!sizes_.forward_only && !weights_done(s, u, m))
            return fmt::format("{}B{}.{} is missing", s, m, u);
        }
    if (sizes_.forward_only) return {};
    for (const int s : stages)
      for (size_t b = 0; b < sizes_.bucket_first_unit.at(static_cast<size_t>(s)).size(); ++b)
        if (!did(ActionKind::ReduceGradients, s, static_cast<int>(b), 0))
          return fmt::format("bucket {} of stage {} is never reduced", b, s);
    return {};
  }

  [[noreturn]] static void refuse(const std::vector<Action>& actions, size_t at, const std::string& problem) {
    std::string text;
    for (size_t i = 0; i < actions.size(); ++i)
      text += i == at ? fmt::format(" >>{}<<", to_text(actions[i])) : " " + to_text(actions[i]);
    fail(ExitCode::Communication, "the schedule is not valid: {}\n {}", problem, text);
  }

  const Schedule& schedule_;
  const ValidationSizes& sizes_;
  std::set<Cell> done_;
};

}  // namespace

void validate(const Schedule& schedule, const ValidationSizes& sizes) {
  CHECK(!schedule.by_rank.empty() && schedule.stages == static_cast<int>(sizes.units_of_stage.size()),
        "a schedule of {} stages was checked against {}", schedule.stages, sizes.units_of_stage.size());
  std::set<int> owned;
  for (const auto& actions : schedule.by_rank) {
    RankValidator(schedule, sizes).run(actions);
    for (const Action& action : actions) owned.insert(action.stage);
  }
  CHECK(owned.size() == sizes.units_of_stage.size(), "only {} of {} stages appear in the schedule",
        owned.size(), sizes.units_of_stage.size());
}

}  // namespace tessera
