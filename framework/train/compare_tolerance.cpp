// SPDX-License-Identifier: Apache-2.0
#include "framework/train/compare_tolerance.h"

#include <algorithm>
#include <cmath>

namespace tessera {
namespace {

// Roundings to the compute type on the way of one block, forward and backward: what an addition that was
// made in another order is rounded through.
constexpr double kRoundingsOfBlock = 24;

}  // namespace

double unit_roundoff(FloatType type) {
  switch (type) {
    case FloatType::Bf16:
      return std::ldexp(1.0, -8);
    case FloatType::Fp16:
      return std::ldexp(1.0, -11);
    case FloatType::Fp32:
      break;
  }
  return std::ldexp(1.0, -24);
}

FloatType narrower(FloatType a, FloatType b) {
  return unit_roundoff(a) > unit_roundoff(b) ? a : b;
}

Tolerance first_step_tolerance(FloatType compute, int64_t blocks) {
  if (compute == FloatType::Fp32) return {.gradient = 1e-5, .loss = 1e-5, .norm = 1e-6};
  const double path = unit_roundoff(compute) * std::sqrt(kRoundingsOfBlock * static_cast<double>(blocks));
  // A norm moves by no more than the gradient; a loss is a mean over hundreds of tokens, whose errors cancel.
  return {.gradient = path, .loss = path / 10, .norm = path};
}

WeightAllowance::WeightAllowance(const OptimizerSection& optimizer, size_t parameters)
    : optimizer_(optimizer), elements_(parameters) {
  for (const OptimizerGroup& group : optimizer.groups) rate_factor_ = std::max(rate_factor_, group.lr_mult);
}

// m and v are means of g and g^2 with weights a_t and b_t that sum to one. By Cauchy-Schwarz
// m^2 <= v * sum a_t^2 / b_t, and v >= min b_t * max g_t^2.
WeightAllowance::Moments WeightAllowance::moments(int64_t updates) const {
  const double beta1 = optimizer_.betas[0], beta2 = optimizer_.betas[1];
  const auto n = static_cast<double>(updates);
  const double all1 = 1 - std::pow(beta1, n), all2 = 1 - std::pow(beta2, n);
  double squares = 0, least = 1;
  for (int64_t t = 1; t <= updates; ++t) {
    const double age = static_cast<double>(updates - t);
    const double a = (1 - beta1) * std::pow(beta1, age) / all1, b = (1 - beta2) * std::pow(beta2, age) / all2;
    squares += b > 0 ? a * a / b : 0;
    least = std::min(least, b);
  }
  return {.ratio = std::sqrt(squares), .share = std::sqrt(least)};
}

// AdamW's direction is m / (sqrt(v) + eps). A change of the gradients by at most d moves m by d, and sqrt(v)
// by d, for it is a norm of them.
void WeightAllowance::add(const Update& update) {
  updates_ = update.updates;
  std::vector<Element>& elements = elements_[update.parameter];
  elements.resize(update.reference.size());
  const double rate = update.learning_rate * rate_factor_;
  const bool sgd = optimizer_.type == OptimizerSection::Type::Sgd;
  const Moments m = sgd ? Moments{} : moments(update.updates);
  for (size_t i = 0; i < elements.size(); ++i) {
    Element& element = elements[i];
    const double difference =
        std::abs(update.gradient[i] * update.factor - update.reference[i] * update.reference_factor);
    if (sgd) {
      element.gradient = static_cast<float>(optimizer_.momentum * element.gradient + difference);
      element.weight += static_cast<float>(rate * element.gradient);
      continue;
    }
    element.gradient = std::max(element.gradient, static_cast<float>(difference));
    const double direction =
        element.gradient * (1 + m.ratio) / (m.share * update.largest[i] + optimizer_.eps);
    element.weight += static_cast<float>(rate * std::min(2 * m.ratio, direction));
  }
}

double WeightAllowance::bound(size_t parameter, std::span<const float> reference) const {
  const std::vector<Element>& elements = elements_[parameter];
  // Each update rounds a weight twice.
  const double rounding = std::ldexp(static_cast<double>(updates_ + 1), -23);
  double squares = 0;
  for (size_t i = 0; i < reference.size(); ++i) {
    const double allowed =
        (i < elements.size() ? elements[i].weight : 0.0f) + rounding * std::abs(reference[i]);
    squares += allowed * allowed;
  }
  // Weights that were zero are rounded too, after the first update.
  return std::sqrt(squares) + 1e-30;
}

}  // namespace tessera
