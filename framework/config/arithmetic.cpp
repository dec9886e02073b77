// SPDX-License-Identifier: Apache-2.0
#include "framework/config/arithmetic.h"

#include <fmt/format.h>

#include <cmath>

namespace tessera::config {

std::optional<int64_t> product(std::initializer_list<int64_t> factors) {
  int64_t result = 1;
  for (const int64_t factor : factors)
    if (__builtin_mul_overflow(result, factor, &result)) return std::nullopt;
  return result;
}

int64_t divide_up(int64_t amount, int64_t size) {
  return amount / size + (amount % size != 0 ? 1 : 0);
}

std::string nearest_multiples(int64_t amount, int64_t size) {
  const int64_t below = amount / size * size;
  const std::optional<int64_t> above = product({amount / size + 1, size});
  if (!above) return fmt::format("{}", below);
  return below == 0 ? fmt::format("{}", *above) : fmt::format("{} or {}", below, *above);
}

std::string nearest_divisors(int64_t amount, int64_t size) {
  int64_t below = size < amount ? size : amount;
  while (below > 1 && amount % below != 0) --below;
  int64_t above = size;
  while (above < amount && amount % above != 0) ++above;
  if (above > amount || above == below) return fmt::format("{}", below);
  return fmt::format("{} or {}", below, above);
}

bool is_power_of_two(double value) {
  int exponent = 0;
  return std::frexp(value, &exponent) == 0.5;
}

}  // namespace tessera::config
