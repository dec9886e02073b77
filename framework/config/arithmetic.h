// SPDX-License-Identifier: Apache-2.0
// Whole-number arithmetic for rules about sizes: products that notice overflow, and the nearest sizes that
// would work.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>

namespace tessera::config {

// Absent when the product does not fit in 64 bits.
std::optional<int64_t> product(std::initializer_list<int64_t> factors);

int64_t divide_up(int64_t amount, int64_t size);

// "384 or 448": the multiples of `size` around `amount`.
std::string nearest_multiples(int64_t amount, int64_t size);

// "2 or 4": the divisors of `amount` around `size`.
std::string nearest_divisors(int64_t amount, int64_t size);

bool is_power_of_two(double value);

}  // namespace tessera::config
