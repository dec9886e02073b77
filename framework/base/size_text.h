// SPDX-License-Identifier: Apache-2.0
// Amounts with a unit that a person reads.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <string>

namespace tessera {

// "1.5 kX" of 1500, base 1000 and units {"X", "kX"}: the largest unit that leaves at least one.
std::string scaled_text(double value, double base, std::initializer_list<const char*> units);

// "512 B", "4.0 KiB", "1.5 GiB".
std::string bytes_text(int64_t bytes);

}  // namespace tessera
