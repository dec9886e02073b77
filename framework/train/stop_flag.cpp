// SPDX-License-Identifier: Apache-2.0
#include "framework/train/stop_flag.h"

#include <unistd.h>

#include <array>
#include <string_view>
#include <utility>

#include "framework/base/check.h"

namespace tessera {
namespace {

// A handler has no argument of ours: the one pointer it may use.
std::atomic<StopFlag*> handler_flag{nullptr};

extern "C" void on_stop_signal(int signal) {
  StopFlag* const flag = handler_flag.load(std::memory_order_relaxed);
  if (flag == nullptr) return;
  if (flag->requested()) ::_exit(128 + signal);
  flag->request(signal);
}

constexpr std::array<std::pair<std::string_view, int>, 5> kSignals{
    {{"TERM", SIGTERM}, {"INT", SIGINT}, {"USR1", SIGUSR1}, {"USR2", SIGUSR2}, {"HUP", SIGHUP}}};

}  // namespace

void install_stop_signals(const std::vector<std::string>& names, StopFlag& flag) {
  handler_flag.store(&flag, std::memory_order_relaxed);
  for (const std::string& name : names) {
    int number = 0;
    for (const auto& [text, value] : kSignals)
      if (text == name) number = value;
    CHECK_AS(ExitCode::Usage, number != 0,
             "fault_tolerance.signals: '{}' is not one of TERM, INT, USR1, USR2, HUP", name);
    struct sigaction action {};
    action.sa_handler = on_stop_signal;
    action.sa_flags = SA_RESTART;
    CHECK(::sigaction(number, &action, nullptr) == 0, "cannot install a handler for signal {}", name);
  }
}

}  // namespace tessera
