// SPDX-License-Identifier: Apache-2.0
// Every vector function against double precision over the whole range of fp32, and bitwise the same on each
// instruction set. Errors are counted in units in the last place of the true value.
#include "framework/backends/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/unit/backends/cpu/vector_math_test.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "framework/backends/cpu/vector_convert-inl.h"
#include "framework/backends/cpu/vector_math-inl.h"
#include "hwy/highway.h"

#ifndef TESSERA_VECTOR_MATH_TEST_FUNCTIONS
#define TESSERA_VECTOR_MATH_TEST_FUNCTIONS
namespace tessera::cpu {
enum class Function { Exp, Log, Tanh, Sigmoid, Erf, Gelu, GeluTanh, Silu, Relu };
}
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::HWY_NAMESPACE {

// y = f(x); slope = f'(x) for activations, else left alone.
void apply(Function function, const float* x, float* y, float* slope, int64_t count) {
  const hn::ScalableTag<float> d;
  constexpr int64_t lanes = static_cast<int64_t>(HWY_LANES(float));
  for (int64_t i = 0; i < count; i += lanes) {
    const auto v = load(d, x + i, count - i);
    const auto value = [&](auto result) HWY_ATTR { store(d, result, y + i, count - i); };
    const auto curve = [&](auto result) HWY_ATTR {
      store(d, result.value, y + i, count - i);
      store(d, result.slope, slope + i, count - i);
    };
    switch (function) {
      case Function::Exp:
        value(exp(d, v));
        break;
      case Function::Log:
        value(log(d, v));
        break;
      case Function::Tanh:
        value(tanh(d, v));
        break;
      case Function::Sigmoid:
        value(sigmoid(d, v));
        break;
      case Function::Erf:
        value(erf(d, v));
        break;
      case Function::Gelu:
        curve(gelu(d, v));
        break;
      case Function::GeluTanh:
        curve(gelu_tanh(d, v));
        break;
      case Function::Silu:
        curve(silu(d, v));
        break;
      case Function::Relu:
        curve(relu(d, v));
        break;
    }
  }
}

void narrow_bf16_lanes(const float* x, BFloat16* y, int64_t count) {
  const hn::ScalableTag<float> d;
  constexpr int64_t lanes = static_cast<int64_t>(HWY_LANES(float));
  for (int64_t i = 0; i < count; i += lanes) store(d, load(d, x + i, count - i), y + i, count - i);
}
void narrow_f16_lanes(const float* x, Float16* y, int64_t count) {
  const hn::ScalableTag<float> d;
  constexpr int64_t lanes = static_cast<int64_t>(HWY_LANES(float));
  for (int64_t i = 0; i < count; i += lanes) store(d, load(d, x + i, count - i), y + i, count - i);
}
void widen_bf16_lanes(const BFloat16* x, float* y, int64_t count) {
  const hn::ScalableTag<float> d;
  constexpr int64_t lanes = static_cast<int64_t>(HWY_LANES(float));
  for (int64_t i = 0; i < count; i += lanes) store(d, load(d, x + i, count - i), y + i, count - i);
}
void widen_f16_lanes(const Float16* x, float* y, int64_t count) {
  const hn::ScalableTag<float> d;
  constexpr int64_t lanes = static_cast<int64_t>(HWY_LANES(float));
  for (int64_t i = 0; i < count; i += lanes) store(d, load(d, x + i, count - i), y + i, count - i);
}

}  // namespace tessera::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/unit/backends/cpu/instruction_sets.h"

namespace tessera::cpu {
namespace {

HWY_EXPORT(apply);
HWY_EXPORT(narrow_bf16_lanes);
HWY_EXPORT(narrow_f16_lanes);
HWY_EXPORT(widen_bf16_lanes);
HWY_EXPORT(widen_f16_lanes);

constexpr float kFloatInfinity = std::numeric_limits<float>::infinity();
constexpr float kFloatNan = std::numeric_limits<float>::quiet_NaN();

// Bit patterns spread over all of fp32, of both signs, with the specials in front.
std::vector<float> sample_range(uint32_t stride) {
  std::vector<float> x{0.0f,      -0.0f,  1.0f,    -1.0f,   kFloatInfinity, -kFloatInfinity,
                       kFloatNan, 1e-45f, -1e-45f, 3.4e38f, -3.4e38f};
  for (uint64_t bits = 1; bits < 0x100000000ull; bits += stride)
    x.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  // Most of fp32 is tiny or huge; activations live here.
  for (int i = 0; i < 50021; ++i) x.push_back(-20.0f + 40.0f * static_cast<float>(i) / 50021.0f);
  return x;
}

double unit_in_last_place(double value, double floor) {
  const double size = std::max(std::fabs(value), floor);
  return std::ldexp(1.0, std::ilogb(size) - 23);
}

struct Point {
  double value, slope;
};
double normal_mass(double x) {
  return 0.5 * std::erfc(-x / std::sqrt(2.0));
}
Point reference(Function function, double x) {
  switch (function) {
    case Function::Exp:
      return {std::exp(x), 0};
    case Function::Log:
      return {std::log(x), 0};
    case Function::Tanh:
      return {std::tanh(x), 0};
    case Function::Sigmoid:
      return {1 / (1 + std::exp(-x)), 0};
    case Function::Erf:
      return {std::erf(x), 0};
    case Function::Gelu:
      return {x * normal_mass(x), normal_mass(x) + x * std::exp(-x * x / 2) / std::sqrt(2 * M_PI)};
    case Function::GeluTanh: {
      const double a = std::sqrt(2 / M_PI), z = 2 * a * (x + 0.044715 * x * x * x);
      const double s = 1 / (1 + std::exp(-z)), t = 1 / (1 + std::exp(z));
      return {x * s, s + x * s * t * 2 * a * (1 + 3 * 0.044715 * x * x)};
    }
    case Function::Silu: {
      const double s = 1 / (1 + std::exp(-x)), t = 1 / (1 + std::exp(x));
      return {x * s, s + x * s * t};
    }
    case Function::Relu:
      return {x <= 0 ? 0 : x, x <= 0 ? 0.0 : 1.0};
  }
  return {};
}

struct Case {
  const char* name;
  Function function;
  double units;  // bound on the error of the value
  bool curve;
};

class VectorMath : public testing::TestWithParam<Case> {};

TEST_P(VectorMath, IsWithinItsBoundOverTheWholeRange) {
  const auto x = sample_range(40009);
  std::vector<float> y(x.size()), slope(x.size());
  for (const int64_t set : instruction_sets()) {
    const InstructionSet chosen(set);
    HWY_DYNAMIC_DISPATCH(apply)
    (GetParam().function, x.data(), y.data(), slope.data(), static_cast<int64_t>(x.size()));
    double worst = 0, worst_slope = 0, worst_x = 0, worst_slope_x = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const Point want = reference(GetParam().function, x[i]);
      // Of the value nearest in fp32 only the class is compared when it is not finite.
      const float nearest = static_cast<float>(want.value);
      if (!std::isfinite(nearest) || !std::isfinite(y[i])) {
        ASSERT_EQ(std::isnan(nearest), std::isnan(y[i])) << "x = " << x[i] << " y = " << y[i];
        if (!std::isnan(nearest)) {
          ASSERT_EQ(nearest, y[i]) << "x = " << x[i];
        }
        continue;
      }
      // What would be subnormal is zero; an activation is such a number times at most 100.
      if (y[i] == 0 && std::fabs(want.value) <= (GetParam().curve ? 0x1p-118 : 0x1p-125)) continue;
      const double error = std::fabs(y[i] - want.value) /
                           unit_in_last_place(want.value, GetParam().curve ? 0x1p-118 : 0x1p-126);
      if (error > worst) worst = error, worst_x = x[i];
      if (!GetParam().curve || !std::isfinite(want.slope)) continue;
      ASSERT_TRUE(std::isfinite(slope[i])) << "x = " << x[i];
      const double slope_error = std::fabs(slope[i] - want.slope) / unit_in_last_place(want.slope, 0.25);
      if (slope_error > worst_slope) worst_slope = slope_error, worst_slope_x = x[i];
    }
    EXPECT_LE(worst, GetParam().units) << "at x = " << worst_x << " on " << hwy::TargetName(set);
    EXPECT_LE(worst_slope, 2.5) << "at x = " << worst_slope_x << " on " << hwy::TargetName(set);
  }
}

TEST_P(VectorMath, HasTheSameBitsOnEveryInstructionSet) {
  const auto x = sample_range(160001);
  std::vector<float> first, first_slope;
  for (const int64_t set : instruction_sets()) {
    const InstructionSet chosen(set);
    std::vector<float> y(x.size()), slope(x.size());
    HWY_DYNAMIC_DISPATCH(apply)
    (GetParam().function, x.data(), y.data(), slope.data(), static_cast<int64_t>(x.size()));
    if (first.empty()) first = y, first_slope = slope;
    for (size_t i = 0; i < x.size(); ++i) {
      if (std::isnan(y[i]) && std::isnan(first[i])) continue;
      ASSERT_EQ(std::bit_cast<uint32_t>(y[i]), std::bit_cast<uint32_t>(first[i]))
          << "x = " << x[i] << " on " << hwy::TargetName(set);
      if (std::isnan(slope[i]) && std::isnan(first_slope[i])) continue;
      ASSERT_EQ(std::bit_cast<uint32_t>(slope[i]), std::bit_cast<uint32_t>(first_slope[i]))
          << "slope at x = " << x[i] << " on " << hwy::TargetName(set);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, VectorMath,
    testing::Values(Case{"exp", Function::Exp, 1.5, false}, Case{"log", Function::Log, 1.5, false},
                    Case{"tanh", Function::Tanh, 3.5, false}, Case{"sigmoid", Function::Sigmoid, 3.5, false},
                    Case{"erf", Function::Erf, 1.5, false}, Case{"gelu", Function::Gelu, 5.5, true},
                    Case{"gelu_tanh", Function::GeluTanh, 3.5, true}, Case{"silu", Function::Silu, 3.5, true},
                    Case{"relu", Function::Relu, 0, true}),
    [](const auto& info) { return info.param.name; });

TEST(VectorConvert, NarrowsLikeTheScalarTypes) {
  const auto x = sample_range(160001);
  const auto count = static_cast<int64_t>(x.size());
  for (const int64_t set : instruction_sets()) {
    const InstructionSet chosen(set);
    std::vector<BFloat16> b(x.size());
    std::vector<Float16> h(x.size());
    HWY_DYNAMIC_DISPATCH(narrow_bf16_lanes)(x.data(), b.data(), count);
    HWY_DYNAMIC_DISPATCH(narrow_f16_lanes)(x.data(), h.data(), count);
    for (size_t i = 0; i < x.size(); ++i) {
      if (std::isnan(x[i])) {
        ASSERT_TRUE(std::isnan(static_cast<float>(b[i])) && std::isnan(static_cast<float>(h[i])));
        continue;
      }
      ASSERT_EQ(b[i].bits, BFloat16(x[i]).bits) << x[i] << " on " << hwy::TargetName(set);
      ASSERT_EQ(h[i].bits, Float16(x[i]).bits) << x[i] << " on " << hwy::TargetName(set);
    }
  }
}

TEST(VectorConvert, WidensEveryPattern) {
  std::vector<BFloat16> b(65536);
  std::vector<Float16> h(65536);
  for (size_t i = 0; i < b.size(); ++i) b[i].bits = h[i].bits = static_cast<uint16_t>(i);
  for (const int64_t set : instruction_sets()) {
    const InstructionSet chosen(set);
    std::vector<float> from_b(b.size()), from_h(b.size());
    HWY_DYNAMIC_DISPATCH(widen_bf16_lanes)(b.data(), from_b.data(), 65536);
    HWY_DYNAMIC_DISPATCH(widen_f16_lanes)(h.data(), from_h.data(), 65536);
    for (size_t i = 0; i < b.size(); ++i) {
      const float want_b = static_cast<float>(b[i]), want_h = static_cast<float>(h[i]);
      ASSERT_TRUE(from_b[i] == want_b || (std::isnan(from_b[i]) && std::isnan(want_b))) << i;
      ASSERT_TRUE(from_h[i] == want_h || (std::isnan(from_h[i]) && std::isnan(want_h))) << i;
    }
  }
}

}  // namespace
}  // namespace tessera::cpu
#endif
