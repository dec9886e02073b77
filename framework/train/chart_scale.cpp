// SPDX-License-Identifier: Apache-2.0
#include "framework/train/chart_scale.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace tessera {
namespace {

// The least of 1, 2 and 5 times a power of ten that is no smaller than `rough` > 0.
double round_step(double rough) {
  const double power = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= rough * (1 - 1e-9)) return factor * power;
  return 10 * power;
}

std::vector<Tick> even_ticks(double low, double high, int count) {
  const double step = round_step((high - low) / count);
  std::vector<Tick> ticks;
  const double first = std::ceil(low / step - 1e-9);
  for (int i = 0; i <= 2 * count; ++i) {
    const double value = (first + i) * step;
    if (value > high + 1e-9 * step) break;
    ticks.push_back({value == 0 ? 0 : value, ""});
  }
  const auto exponent = [](double value) { return static_cast<int>(std::floor(std::log10(value) + 1e-9)); };
  const int top = exponent(std::max(std::abs(low), std::abs(high)));
  // Whole numbers below ten million are written out.
  const int digits = std::clamp(top - exponent(step) + 1, top < 7 ? std::max(top + 1, 1) : 1, 16);
  for (Tick& tick : ticks) tick.label = fmt::format("{:.{}g}", tick.value, digits);
  return ticks;
}

}  // namespace

bool can_show(double value, bool log) {
  return std::isfinite(value) && std::abs(value) <= 1e300 && (!log || value > 0);
}

AxisScale::AxisScale(double low, double high, bool log) : low_(low), high_(high), log_(log) {
  // An axis needs a length that its digits can tell apart.
  const double least = std::max(std::abs(high) * 1e-9, 1e-300);
  if (high - low >= least) return;
  const double around = low == 0 && high == 0 ? 1 : std::abs(high) * 0.1;
  low_ = low - (low > 0 && around >= low ? low / 2 : around);
  high_ = high + around;
}

double AxisScale::place(double value) const {
  if (log_) return (std::log(value) - std::log(low_)) / (std::log(high_) - std::log(low_));
  return (value - low_) / (high_ - low_);
}

std::vector<Tick> AxisScale::ticks(int count) const {
  const double decades = log_ ? (std::log10(high_) - std::log10(low_)) : 0;
  if (decades < 1) return even_ticks(low_, high_, count);
  std::vector<Tick> ticks;
  const auto stride = static_cast<int>(std::max(1.0, round_step(decades / count)));
  const auto first = static_cast<int>(std::floor(std::log10(low_)));
  const auto add = [&](double value) {
    if (value >= low_ * (1 - 1e-9) && value <= high_ * (1 + 1e-9))
      ticks.push_back({value, fmt::format("{:.6g}", value)});
  };
  for (int exponent = first - first % stride; exponent <= std::log10(high_); exponent += stride)
    for (const double factor : {1.0, 2.0, 5.0})
      if (factor == 1 || decades < 3) add(factor * std::pow(10, exponent));
  return ticks;
}

}  // namespace tessera
