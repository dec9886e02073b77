// SPDX-License-Identifier: Apache-2.0
#include "framework/parallel/pipeline/schedule.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <sstream>

#include "framework/base/check.h"

namespace tessera {
namespace {

constexpr std::string_view kNames[] = {"F", "I",  "W",  "B",  "K",  "C", "R",
                                       "T", "SA", "RA", "SG", "RG", "G", "D"};
constexpr int kLargestNumber = 1 << 20;  // of a stage, a micro-batch or a unit in text

Schedule repeated(int microbatches, std::initializer_list<ActionKind> kinds) {
  CHECK(microbatches >= 1, "a schedule needs at least one micro-batch, got {}", microbatches);
  Schedule schedule{.microbatches = microbatches, .by_rank = {{}}};
  for (int m = 0; m < microbatches; ++m)
    for (const ActionKind kind : kinds) schedule.by_rank[0].push_back({.kind = kind, .microbatch = m});
  return schedule;
}

// Takes a number or a kind from the front of a word; false when it does not start with one.
bool take_number(std::string_view& word, int& value) {
  const auto [next, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || value < 0 || value > kLargestNumber) return false;
  word.remove_prefix(static_cast<size_t>(next - word.data()));
  return true;
}

bool take_kind(std::string_view& word, ActionKind& kind) {
  const size_t length = std::min(word.find_first_of("0123456789"), word.size());
  const auto it = std::ranges::find(kNames, word.substr(0, length));
  if (it == std::end(kNames)) return false;
  kind = static_cast<ActionKind>(it - std::begin(kNames));
  word.remove_prefix(length);
  return true;
}

bool take_unit(std::string_view& word, int& unit) {
  if (word.empty()) return true;
  if (word.front() != '.') return false;
  word.remove_prefix(1);
  return take_number(word, unit) && word.empty();
}

Action action_from_text(std::string_view word, size_t rank) {
  Action action{.kind = ActionKind::Forward};
  std::string_view rest = word;
  if (!take_number(rest, action.stage) || !take_kind(rest, action.kind) ||
      !take_number(rest, action.microbatch) || !take_unit(rest, action.unit))
    fail(ExitCode::Usage, "rank {}: '{}' is not an action such as 0F3, 1SA0 or 0B3.1 (kinds: {})", rank, word,
         fmt::join(kNames, " "));
  return action;
}

}  // namespace

Schedule one_stage(int microbatches) {
  return repeated(microbatches, {ActionKind::Forward, ActionKind::Backward});
}

Schedule forward_only(int microbatches) {
  return repeated(microbatches, {ActionKind::Forward});
}

std::string to_text(const Action& action) {
  std::string text =
      fmt::format("{}{}{}", action.stage, kNames[static_cast<size_t>(action.kind)], action.microbatch);
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
  Schedule schedule{.stages = 0, .microbatches = 0, .rank_of_stage = {}, .by_rank = {}};
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('#')) continue;
    const size_t rank = schedule.by_rank.size();
    auto& actions = schedule.by_rank.emplace_back();
    std::istringstream words(line);
    for (std::string word; words >> word;) {
      const Action action = action_from_text(word, rank);
      schedule.stages = std::max(schedule.stages, action.stage + 1);
      schedule.microbatches = std::max(schedule.microbatches, action.microbatch + 1);
      schedule.rank_of_stage.resize(static_cast<size_t>(schedule.stages), -1);
      int& home = schedule.rank_of_stage[static_cast<size_t>(action.stage)];
      if (home < 0 && is_work(action.kind)) home = static_cast<int>(rank);
      actions.push_back(action);
    }
  }
  return schedule;
}

}  // namespace tessera
