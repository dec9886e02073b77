// SPDX-License-Identifier: Apache-2.0
// Sums and maxima over a row in an order that no instruction set changes: sixteen running values, value i
// of columns i, i + 16, ..., in as many registers as it takes, and one tree at the end.
// Include inside a foreach_target source, after simd_targets.h.
#if defined(TESSERA_SIXTEEN_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_SIXTEEN_INL_H
#undef TESSERA_SIXTEEN_INL_H
#else
#define TESSERA_SIXTEEN_INL_H
#endif

#include <algorithm>
#include <cstdint>

#include "framework/backends/cpu/vector_convert-inl.h"
#include "framework/backends/cpu/vector_math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int64_t kVectorLanes = static_cast<int64_t>(HWY_LANES(float));

struct Sixteen {
  static constexpr int kParts = static_cast<int>(16 / kVectorLanes);
  hn::Vec<hn::ScalableTag<float>> part[kParts];

  explicit Sixteen(float value) {
    for (auto& p : part) p = hn::Set(hn::ScalableTag<float>(), value);
  }
};

HWY_INLINE float largest(const Sixteen& values) {
  const hn::ScalableTag<float> d;
  auto result = values.part[0];
  for (int i = 1; i < Sixteen::kParts; ++i) result = hn::Max(result, values.part[i]);
  return hn::GetLane(hn::MaxOfLanes(d, result));
}

#if HWY_TARGET != HWY_SCALAR
// The values as four sums: value i is of columns i, i + 4, ....
template <class S>
HWY_INLINE auto four_sums(const S& values) {
  const hn::FixedTag<float, 4> d4;
  if constexpr (S::kParts == 4) {
    return hn::Add(hn::Add(values.part[0], values.part[2]), hn::Add(values.part[1], values.part[3]));
  } else if constexpr (S::kParts == 2) {
    const auto eight = hn::Add(values.part[0], values.part[1]);
    return hn::Add(hn::LowerHalf(d4, eight), hn::UpperHalf(d4, eight));
  } else {
    const hn::FixedTag<float, 8> d8;
    const auto eight = hn::Add(hn::LowerHalf(d8, values.part[0]), hn::UpperHalf(d8, values.part[0]));
    return hn::Add(hn::LowerHalf(d4, eight), hn::UpperHalf(d4, eight));
  }
}
#endif

// Adds the upper half of the values to the lower one until one is left: ((0 + 8) + (4 + 12)) + ...
HWY_INLINE float total(const Sixteen& values) {
#if HWY_TARGET == HWY_SCALAR
  float lanes[16];
  for (int i = 0; i < 16; ++i) lanes[i] = values.part[i].raw;
  for (int half = 8; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  return lanes[0];
#else
  const auto four = four_sums(values);
  const auto two = hn::Add(four, hn::Shuffle1032(four));
  return hn::GetLane(hn::Add(two, hn::Shuffle2301(two)));
#endif
}

// exp(x) for x <= 0, faster than exp; 0 where the result is below the normal range. NaN stays NaN.
template <class D, class V>
HWY_INLINE V exp_weight(D d, V x) {
  const V limit = hn::Set(d, -87.0f);
  const auto low = hn::Lt(x, limit);
  const auto split = split_exp(d, hn::IfThenElse(low, limit, x), hn::Zero(d));
  const V scale = power_of_two(d, split.power);
  return hn::IfThenZeroElse(low, fused_multiply_add(scale, split.minus_one, scale));
}

// Calls body(part, column, count) for the vectors of a row, in order; count may be short or negative in the
// last sixteen columns. Before them it is a constant, so that the compiler drops what handles ends.
template <class F>
HWY_INLINE void for_sixteens(int64_t columns, F&& body) {
  int64_t c = 0;
  for (; c + 16 <= columns; c += 16)
#pragma GCC unroll 16
    for (int i = 0; i < Sixteen::kParts; ++i) body(i, c + i * kVectorLanes, kVectorLanes);
  if (c < columns)
    for (int i = 0; i < Sixteen::kParts; ++i) {
      const int64_t column = c + i * kVectorLanes;
      body(i, column, columns - column);
    }
}

// The first `count` lanes, zeros after them.
template <class D, class V>
HWY_INLINE V first_lanes(D d, V value, int64_t count) {
  if (HWY_LIKELY(count >= kVectorLanes)) return value;
  return hn::IfThenElseZero(hn::FirstN(d, static_cast<size_t>(std::max<int64_t>(count, 0))), value);
}

}  // namespace tessera::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
