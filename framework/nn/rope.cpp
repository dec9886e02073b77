// SPDX-License-Identifier: Apache-2.0
#include "framework/nn/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "framework/ops/memory.h"

namespace tessera {
namespace {

constexpr double kTwoPi = 2 * std::numbers::pi;

// Long waves are interpolated, short ones kept, and those between are blended.
void scale_llama3(const RopeOptions& options, std::vector<double>& frequencies) {
  const double original = static_cast<double>(options.original_positions);
  for (double& frequency : frequencies) {
    const double rotations = original * frequency / kTwoPi;  // within the original context
    if (rotations > options.high_frequency_factor) continue;
    const double interpolated = frequency / options.factor;
    if (rotations < options.low_frequency_factor) {
      frequency = interpolated;
      continue;
    }
    const double kept = (rotations - options.low_frequency_factor) /
                        (options.high_frequency_factor - options.low_frequency_factor);
    frequency = (1 - kept) * interpolated + kept * frequency;
  }
}

// The index of the frequency that turns `rotations` times within the original context.
double yarn_index(const RopeOptions& options, double rotations) {
  const double original = static_cast<double>(options.original_positions);
  return static_cast<double>(options.rotary_dim) * std::log(original / (rotations * kTwoPi)) /
         (2 * std::log(options.theta));
}

// Frequencies below the index of beta_fast are kept, above that of beta_slow interpolated, with a ramp
// between them.
void scale_yarn(const RopeOptions& options, std::vector<double>& frequencies) {
  const double last = static_cast<double>(options.rotary_dim - 1);
  const double low = std::max(std::floor(yarn_index(options, options.beta_fast)), 0.0);
  double high = std::min(std::ceil(yarn_index(options, options.beta_slow)), last);
  if (low == high) high += 0.001;  // a step, without dividing by zero
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    frequencies[i] = ramp * frequencies[i] / options.factor + (1 - ramp) * frequencies[i];
  }
}

}  // namespace

std::vector<double> rope_frequencies(const RopeOptions& options) {
  CHECK(options.rotary_dim > 0 && options.rotary_dim % 2 == 0,
        "rotary embedding turns pairs of columns, {} columns are not pairs", options.rotary_dim);
  std::vector<double> frequencies(static_cast<size_t>(options.rotary_dim / 2));
  for (size_t i = 0; i < frequencies.size(); ++i)
    frequencies[i] =
        std::pow(options.theta, -2.0 * static_cast<double>(i) / static_cast<double>(options.rotary_dim));
  switch (options.scaling) {
    case RopeOptions::Scaling::None:
      break;
    case RopeOptions::Scaling::Linear:
      for (double& frequency : frequencies) frequency /= options.factor;
      break;
    case RopeOptions::Scaling::Llama3:
      scale_llama3(options, frequencies);
      break;
    case RopeOptions::Scaling::Yarn:
      scale_yarn(options, frequencies);
      break;
  }
  return frequencies;
}

Tensor rope_table(Backend& backend, const RopeOptions& options, int64_t positions, DType compute) {
  const std::vector<double> frequencies = rope_frequencies(options);
  const double size = options.scaling == RopeOptions::Scaling::Yarn ? options.attention_factor : 1;
  std::vector<double> table;
  table.reserve(static_cast<size_t>(positions * options.rotary_dim));
  for (int64_t position = 0; position < positions; ++position) {
    for (const double frequency : frequencies)
      table.push_back(size * std::cos(static_cast<double>(position) * frequency));
    for (const double frequency : frequencies)
      table.push_back(size * std::sin(static_cast<double>(position) * frequency));
  }
  const Shape shape{positions, options.rotary_dim};
  if (compute == DType::F64) return from_host<double>(backend, table, shape);
  const std::vector<float> narrow(table.begin(), table.end());
  return from_host<float>(backend, narrow, shape);
}

}  // namespace tessera
