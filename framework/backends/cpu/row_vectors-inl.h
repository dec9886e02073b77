// SPDX-License-Identifier: Apache-2.0
// Walks rows of any length in vectors; the last one may be short.
// Include inside a foreach_target source, after simd_targets.h.
#if defined(TESSERA_ROW_VECTORS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_ROW_VECTORS_INL_H
#undef TESSERA_ROW_VECTORS_INL_H
#else
#define TESSERA_ROW_VECTORS_INL_H
#endif

#include "framework/backends/cpu/sixteen-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

HWY_INLINE V at(const float* x, int64_t column, int64_t count) {
  return load(D(), x + column, count);
}
HWY_INLINE void put(V value, float* y, int64_t column, int64_t count) {
  store(D(), value, y + column, count);
}

// y = body(column, count) for the vectors of a row; count is a constant but for the last one.
template <class F>
HWY_INLINE void for_vectors(float* y, int64_t n, F&& body) {
  int64_t c = 0;
  for (; c + kVectorLanes <= n; c += kVectorLanes) put(body(c, kVectorLanes), y, c, kVectorLanes);
  if (c < n) put(body(c, n - c), y, c, n - c);
}

}  // namespace tessera::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
