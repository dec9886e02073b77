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

 private:
  std::atomic<int> signal_{0};
};

// Installs handlers for "TERM", "INT", "USR1", ... that set `flag`, which must outlive the process's use of
// signals. One flag a process.
void install_stop_signals(const std::vector<std::string>& names, StopFlag& flag);

}  // namespace tessera
