// SPDX-License-Identifier: Apache-2.0
// The axes of the mesh that ranks are arranged on.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <string_view>

namespace tessera {

// ExpertData and Expert and ExpertTensor cut the ranks of one pipeline stage a second time, for experts.
enum class Axis : uint8_t { Tensor, Sequence, Data, Pipeline, ExpertTensor, Expert, ExpertData };

std::string_view name_of(Axis axis);  // "tp", "sp", "dp", "pp", "etp", "ep", "edp"

class AxisSet {
 public:
  constexpr AxisSet() = default;
  constexpr AxisSet(std::initializer_list<Axis> axes) {
    for (const Axis axis : axes) add(axis);
  }
  constexpr void add(Axis axis) { bits_ = static_cast<uint8_t>(bits_ | bit(axis)); }
  constexpr bool contains(Axis axis) const { return (bits_ & bit(axis)) != 0; }
  constexpr bool empty() const { return bits_ == 0; }
  constexpr bool operator==(const AxisSet&) const = default;
  constexpr auto operator<=>(const AxisSet&) const = default;

 private:
  static constexpr uint8_t bit(Axis axis) { return static_cast<uint8_t>(1u << static_cast<unsigned>(axis)); }
  uint8_t bits_ = 0;
};

}  // namespace tessera
