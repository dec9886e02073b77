// SPDX-License-Identifier: Apache-2.0
#include "framework/optim/learning_rate.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tessera {
namespace {

using Type = LearningRateOptions::Type;

LearningRateOptions options(Type type) {
  return {.type = type,
          .peak = 1e-3,
          .minimum = 1e-4,
          .warmup_steps = 4,
          .decay_steps = 20,
          .wsd_decay_steps = 5};
}
double at(const LearningRateOptions& o, int64_t step) {
  return learning_rate(o, Steps(step));
}

TEST(LearningRate, WarmsUpFromANonZeroFirstStep) {
  const auto o = options(Type::Constant);
  EXPECT_DOUBLE_EQ(at(o, 0), 1e-3 / 5);
  EXPECT_DOUBLE_EQ(at(o, 3), 1e-3 * 4 / 5);
  EXPECT_DOUBLE_EQ(at(o, 4), 1e-3);
}

TEST(LearningRate, CosineReachesItsEndsAndTheMiddle) {
  const auto o = options(Type::Cosine);
  EXPECT_DOUBLE_EQ(at(o, 4), 1e-3);
  EXPECT_DOUBLE_EQ(at(o, 12), 1e-4 + 0.5 * 9e-4);
  EXPECT_DOUBLE_EQ(at(o, 20), 1e-4);
}

TEST(LearningRate, LinearAndWsdDecayToTheMinimum) {
  EXPECT_DOUBLE_EQ(at(options(Type::Linear), 12), 1e-3 - 9e-4 / 2);
  EXPECT_DOUBLE_EQ(at(options(Type::Wsd), 15), 1e-3);
  EXPECT_DOUBLE_EQ(at(options(Type::Wsd), 16), 1e-3 - 9e-4 / 5);
  EXPECT_DOUBLE_EQ(at(options(Type::Wsd), 20), 1e-4);
}

TEST(LearningRate, InverseSqrtFallsWithTheSquareRoot) {
  const auto o = options(Type::InverseSqrt);
  EXPECT_DOUBLE_EQ(at(o, 16), 1e-3 * std::sqrt(4.0 / 16));
  EXPECT_DOUBLE_EQ(at(o, 1000000), 1e-4);  // clamped
}

TEST(LearningRate, StaysInsideItsBoundsFarBeyondTheEnd) {
  for (const Type type : {Type::Cosine, Type::Linear, Type::Constant, Type::InverseSqrt, Type::Wsd}) {
    const auto o = options(type);
    for (int64_t step = o.warmup_steps; step < 2000; ++step) {
      EXPECT_GE(at(o, step), o.minimum);
      EXPECT_LE(at(o, step), o.peak);
    }
    EXPECT_GE(at(o, int64_t{1} << 60), o.minimum);
  }
}

TEST(LearningRate, DegenerateSchedulesDoNotDivideByZero) {
  LearningRateOptions o{.type = Type::Cosine, .peak = 1, .minimum = 0.5, .warmup_steps = 3, .decay_steps = 3};
  EXPECT_DOUBLE_EQ(at(o, 3), 0.5);
  o.type = Type::Wsd;
  EXPECT_DOUBLE_EQ(at(o, 3), 0.5);
  o.warmup_steps = 0;
  o.decay_steps = 0;
  EXPECT_DOUBLE_EQ(at(o, 0), 0.5);
}

}  // namespace
}  // namespace tessera
