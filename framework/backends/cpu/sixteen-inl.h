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

// ((i + i+8) + (i+4 + i+12)) + ...
HWY_INLINE float total(const Sixteen& values) {
  const hn::ScalableTag<float> d;
  alignas(64) float lanes[16];
  for (int i = 0; i < Sixteen::kParts; ++i) hn::Store(values.part[i], d, lanes + i * kVectorLanes);
  for (int half = 8; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  return lanes[0];
}

// Calls body(part, column, count) for the vectors of a row, in order; count may be short or negative in the
// last sixteen columns.
template <class F>
HWY_INLINE void for_sixteens(int64_t columns, F&& body) {
  for (int64_t c = 0; c < columns; c += 16)
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
