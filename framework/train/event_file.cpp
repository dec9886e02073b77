// SPDX-License-Identifier: Apache-2.0
#include "framework/train/event_file.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>

#include "framework/base/check.h"

namespace tessera {
namespace {

constexpr std::string_view kEventFilePrefix = "events.out.tfevents.";

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// The prefix and the time in seconds. Readers take the files of a folder in the order of their names, so the
// time is later than that of all others, whatever clocks do.
std::filesystem::path new_event_file(const std::filesystem::path& folder) {
  auto time = static_cast<int64_t>(seconds_since_1970());
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kEventFilePrefix)) continue;
    int64_t other = 0;
    std::from_chars(name.data() + kEventFilePrefix.size(), name.data() + name.size(), other);
    time = std::max(time, other + 1);
  }
  return folder / fmt::format("{}{:010}", kEventFilePrefix, time);
}

}  // namespace

EventFile::EventFile(const std::filesystem::path& folder, Steps first) {
  try {
    std::filesystem::create_directories(folder);
    path_ = new_event_file(folder);
  } catch (const std::filesystem::filesystem_error& error) {
    fail(ExitCode::Data, "cannot use the folder {}: {}", folder.string(), error.code().message());
  }
  file_.open(path_, std::ios::binary | std::ios::app);
  const double time = seconds_since_1970();
  append(version_event(time));
  append(start_event(time, first));
}

void EventFile::write(Steps step, const EventSummary& summary) {
  append(summary_event(seconds_since_1970(), step, summary));
}

void EventFile::append(std::string_view message) {
  file_ << event_record(message) << std::flush;
  if (!file_) fail(ExitCode::Data, "cannot write {}: {}", path_.string(), std::strerror(errno));
}

}  // namespace tessera
