// SPDX-License-Identifier: Apache-2.0
// The learning rate as a clamped closed-form function of the optimizer step: nothing to store, independent
// of ranks, accumulation and resumes.
#pragma once
#include <cstdint>

#include "framework/base/quantity.h"

namespace tessera {

struct LearningRateOptions {
  enum class Type : uint8_t { Cosine, Linear, Constant, InverseSqrt, Wsd };
  Type type = Type::Cosine;
  double peak = 0;
  double minimum = 0;
  int64_t warmup_steps = 0;
  int64_t decay_steps = 1;      // the step, counted from 0, at which the minimum is reached
  int64_t wsd_decay_steps = 0;  // Wsd: length of the decay that ends at decay_steps
};

// The rate of update number `step`, counted from 0. Warm-up is linear: peak * (step + 1) / (warmup + 1),
// so that the first update is never empty; from warmup_steps on the peak decays. inverse_sqrt is
// peak * sqrt(w / max(step, w)) with w = max(1, warmup_steps) (Vaswani et al. 2017). The result lies in
// [minimum, peak], but for the warm-up, which starts below the minimum where the peak's share does.
double learning_rate(const LearningRateOptions& options, Steps step);

}  // namespace tessera
