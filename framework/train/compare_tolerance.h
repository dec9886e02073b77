// SPDX-License-Identifier: Apache-2.0
// How far rounding can take two layouts of one config apart. docs/parallelism.md derives the numbers.
#pragma once
#include <span>
#include <vector>

#include "framework/config/run_config.h"

namespace tessera {

// Relative: gradients as comparison_scale measures them, losses and norms to their own size.
struct Tolerance {
  double gradient = 0, loss = 0, norm = 0;
};
// Of the first step. `blocks` is the number of layers; the type is the narrower one of the two layouts.
Tolerance first_step_tolerance(FloatType compute, int64_t blocks);

// The narrower of two compute types.
FloatType narrower(FloatType a, FloatType b);
double unit_roundoff(FloatType type);

// The distance between the weights of two runs that the distance of their gradients explains. The gradients
// are those that entered the optimizer: divided by the loss scale and clipped.
class WeightAllowance {
 public:
  WeightAllowance(const OptimizerSection& optimizer, size_t parameters);

  struct Update {
    size_t parameter;
    std::span<const float> gradient, reference;  // before clipping
    double factor, reference_factor;             // of clipping
    std::span<const float> largest;  // of each element, in size, of the clipped reference gradients so far
    double learning_rate;
    int64_t updates;  // made, this one included
  };
  void add(const Update& update);
  // Of weights `reference` after the updates so far.
  double bound(size_t parameter, std::span<const float> reference) const;

 private:
  struct Element {
    float weight = 0;    // allowance
    float gradient = 0;  // AdamW: the largest difference so far. SGD: difference of the velocities
  };
  // |m / sqrt(v)| at most, and the least share of the largest gradient in sqrt(v), after so many updates.
  struct Moments {
    double ratio, share;
  };
  Moments moments(int64_t updates) const;

  const OptimizerSection& optimizer_;
  double rate_factor_ = 1;  // the largest of the groups
  int64_t updates_ = 0;
  std::vector<std::vector<Element>> elements_;
};

}  // namespace tessera
