// SPDX-License-Identifier: Apache-2.0
#include "framework/base/size_text.h"

#include <fmt/core.h>

#include <cmath>

namespace tessera {

std::string scaled_text(double value, double base, std::initializer_list<const char*> units) {
  auto unit = units.begin();
  while (std::abs(value) >= base && unit + 1 != units.end()) {
    value /= base;
    ++unit;
  }
  return fmt::format("{:.{}f} {}", value, unit == units.begin() ? 0 : 1, *unit);
}

std::string bytes_text(int64_t bytes) {
  return scaled_text(static_cast<double>(bytes), 1024, {"B", "KiB", "MiB", "GiB", "TiB", "PiB"});
}

}  // namespace tessera
