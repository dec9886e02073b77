// SPDX-License-Identifier: Apache-2.0
// Where a tensor's bytes are, and the queue in which a device works.
#pragma once
#include <compare>
#include <cstdint>

namespace tessera {

enum class DeviceKind : uint8_t { Cpu, Cuda, Shape };  // Shape: no data, only sizes

struct Device {
  DeviceKind kind = DeviceKind::Cpu;
  int index = 0;
  auto operator<=>(const Device&) const = default;
};

// Work on one stream runs in order. A host stream is always idle: calls return when they are done.
class Stream {
 public:
  virtual ~Stream() = default;
  virtual void synchronize() {}
};

}  // namespace tessera
