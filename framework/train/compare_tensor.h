// SPDX-License-Identifier: Apache-2.0
// How one tensor of a layout differs from the reference's, and what that looks like: rounding, or a fault
// with a pattern (a factor, one rank's box, one head, swapped boxes, some rows).
#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "framework/nn/parameter.h"

namespace tessera {

struct Difference {
  double distance = 0;     // ||a - b||
  double size = 0;         // ||b||
  double inner = 0;        // <a, b>
  int64_t non_finite = 0;  // elements of a that are not finite where b's is
  bool bitwise = true;
};
Difference difference(std::span<const float> a, std::span<const float> b);

// What a difference is measured against (docs/parallelism.md): some true gradients are zero, and rounding
// must not be compared with nothing.
double comparison_scale(double size, double global_size);

struct Suspicion {
  bool rounding = false;
  std::string text;              // "2.000 times the reference"
  std::optional<double> factor;  // of the elements that differ, where one factor explains them
  std::optional<int> rank;       // whose box differs
  std::optional<int64_t> head;
  std::optional<Range> rows;  // along `dim`
  int dim = 0;
};

struct SuspectTensor {
  const ParameterSpec& spec;
  std::span<const float> value, reference;
  std::span<const Box> boxes;  // of each rank of the layout
  double bound;                // the distance that rounding explains
};
Suspicion suspect(const SuspectTensor& tensor);

}  // namespace tessera
