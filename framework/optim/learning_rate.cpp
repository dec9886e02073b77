// SPDX-License-Identifier: Apache-2.0
#include "framework/optim/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tessera {
namespace {

// Share of the way from `begin` to `end`, clamped to [0, 1].
double progress(int64_t step, int64_t begin, int64_t end) {
  if (step >= end) return 1;
  if (step <= begin) return 0;
  return static_cast<double>(step - begin) / static_cast<double>(end - begin);
}

}  // namespace

double learning_rate(const LearningRateOptions& options, Steps step) {
  const int64_t s = step.value, warmup = options.warmup_steps;
  if (s < warmup) return options.peak * static_cast<double>(s + 1) / static_cast<double>(warmup + 1);
  const double span = options.peak - options.minimum;
  double rate = options.peak;
  switch (options.type) {
    case LearningRateOptions::Type::Constant:
      break;
    case LearningRateOptions::Type::Cosine:
      rate = options.minimum +
             span * 0.5 * (1 + std::cos(std::numbers::pi * progress(s, warmup, options.decay_steps)));
      break;
    case LearningRateOptions::Type::Linear:
      rate = options.peak - span * progress(s, warmup, options.decay_steps);
      break;
    case LearningRateOptions::Type::InverseSqrt: {
      const double w = static_cast<double>(std::max<int64_t>(1, warmup));
      rate = options.peak * std::sqrt(w / std::max(static_cast<double>(s), w));
      break;
    }
    case LearningRateOptions::Type::Wsd: {
      const int64_t begin = std::max(warmup, options.decay_steps - options.wsd_decay_steps);
      rate = options.peak - span * progress(s, begin, options.decay_steps);
      break;
    }
  }
  return std::clamp(rate, std::min(options.minimum, options.peak), options.peak);
}

}  // namespace tessera
