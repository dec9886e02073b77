// SPDX-License-Identifier: Apache-2.0
#include "framework/parallel/pipeline/schedule.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "framework/base/check.h"

namespace tessera {
namespace {

constexpr std::string_view kNames[] = {"F",  "I",  "W",  "B",  "K", "C", "R", "T",
                                       "SA", "RA", "SG", "RG", "G", "D", "O", "L"};
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

// Words of a line, with the columns that they start at.
std::vector<std::pair<int, std::string_view>> words_of(std::string_view line) {
  constexpr std::string_view kBlank = " \t\r";
  std::vector<std::pair<int, std::string_view>> words;
  for (size_t at = line.find_first_not_of(kBlank); at != std::string_view::npos;
       at = line.find_first_not_of(kBlank, at)) {
    const size_t end = std::min(line.find_first_of(kBlank, at), line.size());
    words.emplace_back(static_cast<int>(at) + 1, line.substr(at, end - at));
    at = end;
  }
  return words;
}

void add(Schedule& schedule, const Action& action) {
  schedule.stages = std::max(schedule.stages, action.stage + 1);
  schedule.microbatches = std::max(schedule.microbatches, action.microbatch + 1);
  schedule.rank_of_stage.resize(static_cast<size_t>(schedule.stages), -1);
  int& home = schedule.rank_of_stage[static_cast<size_t>(action.stage)];
  if (home < 0 && is_work(action.kind)) home = static_cast<int>(schedule.by_rank.size()) - 1;
  schedule.by_rank.back().push_back(action);
}

}  // namespace

Schedule one_stage(int microbatches) {
  return repeated(microbatches, {ActionKind::Forward, ActionKind::Backward});
}

Schedule forward_only(int microbatches) {
  return repeated(microbatches, {ActionKind::Forward});
}

std::string to_text(const Action& action) {
  std::string text = fmt::format("{}{}{}{}", action.together ? "+" : "", action.stage,
                                 kNames[static_cast<size_t>(action.kind)], action.microbatch);
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

std::optional<Action> action_from_text(std::string_view word) {
  Action action{.kind = ActionKind::Forward, .together = word.starts_with('+')};
  if (action.together) word.remove_prefix(1);
  if (take_number(word, action.stage) && take_kind(word, action.kind) &&
      take_number(word, action.microbatch) && take_unit(word, action.unit))
    return action;
  return {};
}

Schedule schedule_from_text(std::string_view text) {
  return placed_schedule_from_text(text, "").schedule;
}

PlacedSchedule placed_schedule_from_text(std::string_view text, std::string_view file) {
  const std::string prefix = file.empty() ? "" : std::string(file) + ":";
  PlacedSchedule placed{.schedule = {.stages = 0, .microbatches = 0, .rank_of_stage = {}, .by_rank = {}}};
  for (int line = 1; !text.empty(); ++line) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view row = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (row.starts_with('#')) continue;
    const auto words = words_of(row);
    if (words.empty() && placed.schedule.by_rank.empty()) continue;
    if (words.empty()) break;
    placed.schedule.by_rank.emplace_back();
    auto& places = placed.places.emplace_back();
    for (const auto& [column, word] : words) {
      const std::optional<Action> action = action_from_text(word);
      if (!action)
        fail(ExitCode::Usage, "{}{}:{}: '{}' is not an action such as 0F3, +0B2, 1SA0 or 0B3.1 (kinds: {})",
             prefix, line, column, word.substr(0, 40), fmt::join(kNames, " "));
      add(placed.schedule, *action);
      places.push_back({line, column});
    }
    places.push_back({line, static_cast<int>(row.size()) + 1});
  }
  return placed;
}

}  // namespace tessera
