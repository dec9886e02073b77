// SPDX-License-Identifier: Apache-2.0
#include "tests/support/gradient_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "framework/ops/memory.h"

namespace tessera::test {

std::vector<double> some_values(int64_t count, uint64_t seed) {
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i)
    values.push_back(
        static_cast<double>(normal_from_bits(philox(RandomKey{seed}, static_cast<uint64_t>(i))[0])));
  return values;
}

Tensor some_tensor(Backend& backend, Shape shape, uint64_t seed) {
  return from_host<double>(backend, some_values(shape.elements(), seed), shape);
}

void expect_gradient(Backend& backend, const std::string& name, const Tensor& variable,
                     const std::vector<double>& gradient, const std::function<double()>& objective,
                     size_t stride) {
  ASSERT_EQ(static_cast<int64_t>(gradient.size()), variable.elements()) << name;
  const std::vector<double> start = to_host<double>(backend, variable);
  const Tensor flat = variable.flat();
  double largest = 0;
  for (const double value : gradient) largest = std::max(largest, std::abs(value));
  // Truncation is step^4 = 1e-16 of a fifth derivative, which norms of narrow rows make large; rounding is
  // 1e-16 of the objective over the step.
  constexpr double kStep = 1e-4;
  const double tolerance = 2e-9 * std::max(1.0, largest);
  for (size_t i = 0; i < start.size(); i += stride) {
    const Tensor element = flat.narrow(static_cast<int64_t>(i), 1);
    const auto at = [&](double offset) {
      const double value = start[i] + offset;
      backend.upload(std::as_bytes(std::span(&value, 1)), element);
      return objective();
    };
    const double expected = (8 * (at(kStep) - at(-kStep)) - (at(2 * kStep) - at(-2 * kStep))) / (12 * kStep);
    at(0);
    ASSERT_TRUE(std::isfinite(expected)) << name << "[" << i << "]";
    ASSERT_NEAR(gradient[i], expected, tolerance) << name << "[" << i << "]";
  }
}

void expect_same_bits(const std::vector<double>& a, const std::vector<double>& b, const std::string& name) {
  ASSERT_EQ(a.size(), b.size()) << name;
  for (size_t i = 0; i < a.size(); ++i) ASSERT_EQ(a[i], b[i]) << name << "[" << i << "]";
}

}  // namespace tessera::test
