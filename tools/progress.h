// SPDX-License-Identifier: Apache-2.0
// How far a command has come, in one line of stderr that is rewritten in place; nothing when that is no
// terminal.
#pragma once
#include <chrono>
#include <cstdint>

namespace tessera::tools {

class Progress {
 public:
  explicit Progress(int64_t total_bytes);
  ~Progress() { clear(); }
  void show(int64_t done_bytes);  // a few times a second at most
  void clear();                   // before something else is printed

 private:
  using Clock = std::chrono::steady_clock;
  int64_t total_;
  bool terminal_, shown_ = false;
  Clock::time_point start_ = Clock::now(), next_ = start_;
};

}  // namespace tessera::tools
