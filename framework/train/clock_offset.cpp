// SPDX-License-Identifier: Apache-2.0
#include "framework/train/clock_offset.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "framework/base/timeline.h"

namespace tessera {
namespace {

constexpr size_t kRounds = 8;
using Times = std::array<double, kRounds>;

template <class T>
std::string bytes_of(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}
template <class T>
T value_of(const std::string& bytes) {
  T value{};
  CHECK(bytes.size() == sizeof value, "a time of {} bytes", bytes.size());
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

// Another text on each host, and after each of its starts, which is when its clock begins.
std::string host_identity() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string identity;
  std::getline(file, identity);
  return identity;
}

}  // namespace

// What comes late only makes a way longer: the shortest of each direction are the truest.
ClockOffset offset_from(std::span<const ClockRound> rounds) {
  double to_here = std::numeric_limits<double>::infinity(), from_here = to_here;
  for (const ClockRound& round : rounds) {
    to_here = std::min(to_here, round.seen_here - round.sent_there);
    from_here = std::min(from_here, round.seen_there - round.sent_here);
  }
  return {.seconds = (to_here - from_here) / 2, .error = (to_here + from_here) / 2};
}

ClockOffset measure_clock_offset(Communicator& world) {
  const std::vector<std::string> hosts = world.all_gather_host(host_identity());
  const bool one_host = std::ranges::all_of(hosts, [&](const std::string& host) { return host == hosts[0]; });
  if (one_host && !hosts[0].empty()) return {};
  std::array<ClockRound, kRounds> rounds;
  Times seen{};
  for (size_t i = 0; i < kRounds; ++i) {
    world.barrier();
    rounds[i].sent_here = Timeline::now();
    const std::vector<std::string> sent = world.all_gather_host(bytes_of(rounds[i].sent_here));
    seen[i] = rounds[i].seen_here = Timeline::now();
    rounds[i].sent_there = value_of<double>(sent[0]);
  }
  std::string seen_there = bytes_of(seen);
  world.broadcast_host(seen_there, 0);
  for (size_t i = 0; i < kRounds; ++i) rounds[i].seen_there = value_of<Times>(seen_there)[i];
  const bool with_first = hosts[static_cast<size_t>(world.rank())] == hosts[0] && !hosts[0].empty();
  return with_first || world.rank() == 0 ? ClockOffset{} : offset_from(rounds);
}

}  // namespace tessera
