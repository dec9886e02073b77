// SPDX-License-Identifier: Apache-2.0
// Compares two checkpoints tensor by tensor, whatever meshes wrote them.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "framework/checkpoint/manifest.h"

namespace tessera {

struct TensorDifference {
  std::string name;
  DType dtype_a, dtype_b;
  Shape shape_a, shape_b;
  int64_t elements = 0;
  int64_t different_bits = 0;    // elements; where the types differ, those whose values differ
  int64_t different_values = 0;  // elements; NaN equals NaN, and -0 equals 0
  double max_absolute = 0;       // infinity when only one side is not finite
  double max_relative = 0;       // |a - b| / max(|a|, |b|)
  bool comparable() const { return shape_a == shape_b; }
  bool same_bits() const { return comparable() && dtype_a == dtype_b && different_bits == 0; }
  bool same_values() const { return comparable() && dtype_a == dtype_b && different_values == 0; }
};

struct Comparison {
  std::vector<std::string> only_in_a, only_in_b;
  std::vector<TensorDifference> tensors;  // those in both, in order of name
  bool equal(bool bitwise) const;
};

// Every file must have been checked.
Comparison compare_checkpoints(const std::filesystem::path& folder_a, const Manifest& a,
                               const std::filesystem::path& folder_b, const Manifest& b);

}  // namespace tessera
