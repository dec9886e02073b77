// SPDX-License-Identifier: Apache-2.0
#include "tools/progress.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <string>

namespace tessera::tools {
namespace {

std::string time_text(double seconds) {
  const auto whole = static_cast<int64_t>(seconds);
  if (whole >= 3600) return fmt::format("{} h {:02} min", whole / 3600, whole / 60 % 60);
  if (whole >= 60) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} s", whole);
}

}  // namespace

Progress::Progress(int64_t total_bytes) : total_(total_bytes), terminal_(::isatty(STDERR_FILENO) == 1) {}

void Progress::show(int64_t done_bytes) {
  if (!terminal_ || Clock::now() < next_) return;
  next_ = Clock::now() + std::chrono::milliseconds(200);
  shown_ = true;
  constexpr int64_t kWidth = 30;
  const int64_t full = total_ > 0 ? std::min(kWidth, kWidth * done_bytes / total_) : kWidth;
  const std::string bar =
      std::string(static_cast<size_t>(full), '#') + std::string(static_cast<size_t>(kWidth - full), '.');
  const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
  const double rate = static_cast<double>(done_bytes) / std::max(seconds, 1e-9);
  fmt::print(stderr, "\r[{}] {:.1f} of {:.1f} MB, {:.1f} MB/s", bar, static_cast<double>(done_bytes) / 1e6,
             static_cast<double>(total_) / 1e6, rate / 1e6);
  // The first second says little.
  if (seconds > 1 && rate > 0)
    fmt::print(stderr, ", {} left", time_text(static_cast<double>(total_ - done_bytes) / rate));
  fmt::print(stderr, "\033[K");
}

void Progress::clear() {
  if (shown_) fmt::print(stderr, "\r\033[K");
  shown_ = false;
}

}  // namespace tessera::tools
