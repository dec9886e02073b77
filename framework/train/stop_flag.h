// SPDX-License-Identifier: Apache-2.0
// A request to stop, set by a signal handler and read at step boundaries, where all ranks agree on it. The
// first signal asks for a checkpoint and an orderly end; a second one leaves at once.
#pragma once
#include <atomic>
#include <csignal>
#include <string>
#include <vector>

namespace tessera {

class StopFlag {
 public:
  bool requested() const { return signal_.load(std::memory_order_relaxed) != 0; }
  int signal_number() const { return signal_.load(std::memory_order_relaxed); }
  void request(int signal) { signal_.store(signal, std::memory_order_relaxed); }

  // A stop was asked for, and whether the other ranks are still there to agree on it is not known.
  bool unanswered() const { return requested() && answers_.load(std::memory_order_relaxed) == 0; }

  // While one lives the ranks are known to work together, on a checkpoint for instance, however long that
  // takes.
  class Answer {
   public:
    explicit Answer(StopFlag& flag) : flag_(flag) { ++flag_.answers_; }
    ~Answer() { --flag_.answers_; }
    Answer(const Answer&) = delete;
    Answer& operator=(const Answer&) = delete;

   private:
    StopFlag& flag_;
  };

 private:
  std::atomic<int> signal_{0};
  std::atomic<int> answers_{0};  // thread ranks share the flag
};

// Installs handlers for "TERM", "INT", "USR1", ... that set `flag`, which must outlive the process's use of
// signals. One flag a process.
void install_stop_signals(const std::vector<std::string>& names, StopFlag& flag);

}  // namespace tessera
