// SPDX-License-Identifier: Apache-2.0
// Clocks of several hosts on one axis. Processes of one host read one clock; between hosts the difference is
// found as NTP does it (RFC 5905, section 8), from times that travel both ways.
#pragma once
#include <span>

#include "framework/comm/communicator.h"

namespace tessera {

struct ClockOffset {
  double seconds = 0;  // this rank's Timeline::now() less that of rank 0 at the same moment
  double error = 0;    // at most
};

// Times of one exchange between a rank and rank 0, each on its own clock.
struct ClockRound {
  double sent_here = 0, sent_there = 0;  // before the own time leaves
  double seen_here = 0, seen_there = 0;  // after the other's time has come
};
ClockOffset offset_from(std::span<const ClockRound> rounds);

// Collective over the world. Exactly 0 on the host of rank 0.
ClockOffset measure_clock_offset(Communicator& world);

}  // namespace tessera
