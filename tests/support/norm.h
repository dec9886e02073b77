// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cmath>
#include <vector>

namespace tessera::test {

inline double norm_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum);
}

}  // namespace tessera::test
