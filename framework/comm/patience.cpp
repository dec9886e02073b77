// SPDX-License-Identifier: Apache-2.0
#include "framework/comm/patience.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;

// A signal handler cannot wake who waits, so who waits looks up from time to time.
constexpr auto kLook = std::chrono::milliseconds(100);

Clock::time_point seconds_from(Clock::time_point start, double seconds) {
  return start + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

}  // namespace

std::optional<std::string> wait_patiently(std::condition_variable& changed,
                                          std::unique_lock<std::mutex>& lock, const Patience& patience,
                                          const std::function<bool()>& ended) {
  const Clock::time_point limit = seconds_from(Clock::now(), patience.timeout_s);
  constexpr auto kNever = Clock::time_point::max();
  Clock::time_point hurried_limit = kNever;
  while (true) {
    const Clock::time_point now = Clock::now();
    if (!patience.hurried || !patience.hurried())
      hurried_limit = kNever;
    else if (hurried_limit == kNever)
      hurried_limit = seconds_from(now, patience.hurried_s);
    const Clock::time_point last = std::min(limit, hurried_limit);
    const Clock::time_point next = patience.hurried ? std::min(last, now + kLook) : last;
    if (changed.wait_until(lock, next, ended)) return std::nullopt;
    if (Clock::now() < last) continue;
    return last == limit ? fmt::format("{} s", patience.timeout_s)
                         : fmt::format("{} s after the signal to stop", patience.hurried_s);
  }
}

}  // namespace tessera
