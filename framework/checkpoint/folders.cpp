// SPDX-License-Identifier: Apache-2.0
#include "framework/checkpoint/folders.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <random>

#include "framework/base/check.h"
#include "framework/checkpoint/file.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step_";
constexpr size_t kDigits = 8;
constexpr std::string_view kProbe = ".probe-";

std::string fresh_id() {
  std::random_device source;
  return fmt::format("{:08x}", source());
}

std::string hidden_name(Steps step, std::string_view purpose) {
  return fmt::format(".{}.{}-{}", step_folder_name(step), purpose, fresh_id());
}

std::vector<std::string> names_in(const fs::path& directory) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end; entry.increment(error))
    names.push_back(entry->path().filename().string());
  // Nothing there is an answer; anything else that keeps us from looking is not.
  const bool absent = error == std::errc::no_such_file_or_directory;
  CHECK_AS(ExitCode::Data, !error || absent, "cannot list {}: {}", directory.string(), error.message());
  std::sort(names.begin(), names.end());
  return names;
}

// The step of ".step_00000100.<purpose>-<id>".
std::optional<Steps> step_of_hidden_name(std::string_view name, std::string_view purpose) {
  if (!name.starts_with('.')) return std::nullopt;
  const size_t dot = name.find('.', 1);
  if (dot == std::string_view::npos || !name.substr(dot + 1).starts_with(fmt::format("{}-", purpose)))
    return std::nullopt;
  return step_of_folder_name(name.substr(1, dot - 1));
}

}  // namespace

std::string step_folder_name(Steps step) {
  return fmt::format("{}{:0{}}", kPrefix, step.value, kDigits);
}

std::optional<Steps> step_of_folder_name(std::string_view name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  const std::string_view digits = name.substr(kPrefix.size());
  int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size() || value < 0) return std::nullopt;
  // One name a step: "step_100" and "step_000000100" are none.
  if (step_folder_name(Steps(value)) != name) return std::nullopt;
  return Steps(value);
}

std::string probe_name() {
  return fmt::format("{}{}", kProbe, fresh_id());
}

std::vector<Steps> published_steps(const fs::path& directory) {
  std::vector<Steps> steps;
  for (const std::string& name : names_in(directory))
    if (const auto step = step_of_folder_name(name)) steps.push_back(*step);
  std::sort(steps.begin(), steps.end());
  return steps;
}

std::string working_folder_name(Steps step) {
  return hidden_name(step, "tmp");
}

void publish_folder(const fs::path& working, const fs::path& published) {
  const fs::path directory = published.parent_path();
  std::error_code error;
  if (fs::exists(fs::symlink_status(published, error))) {
    fs::path old = working;  // where the replaced checkpoint is, once they are exchanged
    if (!exchange_paths(working, published)) {
      const Steps step = step_of_folder_name(published.filename().string()).value_or(Steps(0));
      old = directory / hidden_name(step, "old");
      // A kill between these two leaves ".old-", which recover_replaced gives its name back.
      rename_path(published, old);
      try {
        rename_path(working, published);
      } catch (const Error&) {
        rename_path(old, published);
        throw;
      }
    }
    sync_directory(directory);
    remove_folder(old);
    return;
  }
  rename_path(working, published);
  sync_directory(directory);
}

void recover_replaced(const fs::path& directory, const Notify& notify) {
  for (const std::string& name : names_in(directory)) {
    const std::optional<Steps> step = step_of_hidden_name(name, "old");
    if (!step) continue;
    const fs::path published = directory / step_folder_name(*step);
    std::error_code error;
    if (fs::exists(published, error) || error) continue;
    fs::rename(directory / name, published, error);
    notify(error ? fmt::format("cannot rename {} back to {}: {}", (directory / name).string(),
                               published.string(), error.message())
                 : fmt::format("{} was being replaced when a run was killed; it has its name back",
                               published.string()));
  }
}

void clean_leftovers(const fs::path& directory, const Notify& notify) {
  try {
    recover_replaced(directory, notify);
    for (const std::string& name : names_in(directory)) {
      const bool rubbish = step_of_hidden_name(name, "old") || step_of_hidden_name(name, "tmp") ||
                           step_of_hidden_name(name, "del") || name.starts_with(kProbe);
      std::error_code error;
      if (!rubbish || !fs::exists(fs::symlink_status(directory / name, error))) continue;
      notify(remove_folder(directory / name)
                 ? fmt::format("removed {}, left by an unfinished save", (directory / name).string())
                 : fmt::format("cannot remove all of {}, left by an unfinished save",
                               (directory / name).string()));
    }
  } catch (const std::exception& error) {
    notify(error.what());
  }
}

void prune(const fs::path& directory, Steps newest, int64_t keep_last, int64_t keep_every,
           const Notify& notify) {
  if (keep_last <= 0) return;
  try {
    std::vector<Steps> steps = published_steps(directory);
    std::erase_if(steps, [&](Steps step) { return step > newest; });
    const auto kept = static_cast<size_t>(keep_last);
    for (size_t i = 0; i + kept < steps.size(); ++i) {
      if (steps[i] == newest || (keep_every > 0 && steps[i].value % keep_every == 0)) continue;
      // Renamed first, so that a folder with half of its files never has a checkpoint's name.
      const fs::path doomed = directory / hidden_name(steps[i], "del");
      rename_path(directory / step_folder_name(steps[i]), doomed);
      if (!remove_folder(doomed)) notify(fmt::format("cannot remove all of {}", doomed.string()));
    }
  } catch (const std::exception& error) {
    notify(fmt::format("old checkpoints were not removed: {}", error.what()));
  }
}

std::vector<fs::path> set_aside_later(const fs::path& directory, Steps step) {
  std::vector<fs::path> moved;
  for (const Steps later : published_steps(directory)) {
    if (later <= step) continue;
    moved.push_back(directory / fmt::format("aside_{}-{}", step_folder_name(later), fresh_id()));
    rename_path(directory / step_folder_name(later), moved.back());
  }
  if (!moved.empty()) sync_directory(directory);
  return moved;
}

bool remove_folder(const fs::path& folder) noexcept {
  try {
    std::error_code error;
    fs::remove_all(folder, error);
    return !error;
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace tessera
