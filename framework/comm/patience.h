// SPDX-License-Identifier: Apache-2.0
// How long one wait for other ranks may last: always at most the time limit, and only a few seconds once the
// run was asked to stop. The others may be gone then: a launcher sends SIGTERM to the survivors of a crash
// too.
#pragma once
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

namespace tessera {

struct Patience {
  Patience(double limit_s) : timeout_s(limit_s) {}  // implicit: most callers have nothing but the limit
  Patience(double limit_s, std::function<bool()> hurry, double hurry_s = 5)
      : timeout_s(limit_s), hurried(std::move(hurry)), hurried_s(hurry_s) {}

  double timeout_s;
  // While this says yes a wait lasts only `hurried_s` longer. Called from any thread, with locks held. May be
  // empty.
  std::function<bool()> hurried;
  double hurried_s = 5;
};

// Waits on `changed`, whose mutex `lock` holds, until `ended` or until the patience is at its end. Then the
// result says how long that was: "600 s", "5 s after the signal to stop".
[[nodiscard]] std::optional<std::string> wait_patiently(std::condition_variable& changed,
                                                        std::unique_lock<std::mutex>& lock,
                                                        const Patience& patience,
                                                        const std::function<bool()>& ended);

}  // namespace tessera
