// SPDX-License-Identifier: Apache-2.0
// From values to places on an axis, and the round values that an axis names.
#pragma once
#include <string>
#include <vector>

namespace tessera {

struct Tick {
  double value;
  std::string label;
};

// Maps [low, high] to [0, 1]; with `log`, by ratio. Low and high are widened where they are the same value.
class AxisScale {
 public:
  AxisScale() = default;
  // With `log`, 0 < low. Both finite, low <= high.
  AxisScale(double low, double high, bool log);

  double place(double value) const;
  // About `count` of them, never more than twice as many: multiples of 1, 2 or 5 times a power of ten, and on
  // an axis by ratio of several decades the powers themselves. Labels tell them apart.
  std::vector<Tick> ticks(int count) const;

 private:
  double low_ = 0, high_ = 1;
  bool log_ = false;
};

// Whether an axis can show the value at all: finite, no larger than 1e300 and, by ratio, positive.
bool can_show(double value, bool log);

}  // namespace tessera
