// SPDX-License-Identifier: Apache-2.0
// Distinct integer types for the four things a trainer counts, so that a count of one kind cannot be
// passed for another. A step is one optimizer update; a micro-batch is one forward and backward; a sample
// is one row of seq_length tokens; a token is one trained position.
#pragma once
#include <compare>
#include <cstdint>

namespace tessera {

template <class Tag>
struct Quantity {
  int64_t value = 0;
  constexpr Quantity() = default;
  constexpr explicit Quantity(int64_t v) : value(v) {}
  constexpr auto operator<=>(const Quantity&) const = default;
  constexpr Quantity& operator++() {
    ++value;
    return *this;
  }
  constexpr Quantity& operator+=(Quantity other) {
    value += other.value;
    return *this;
  }
  friend constexpr Quantity operator+(Quantity a, Quantity b) { return Quantity(a.value + b.value); }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return Quantity(a.value - b.value); }
};

using Steps = Quantity<struct StepTag>;
using MicroBatches = Quantity<struct MicroBatchTag>;
using Samples = Quantity<struct SampleTag>;
using Tokens = Quantity<struct TokenTag>;

}  // namespace tessera
