// SPDX-License-Identifier: Apache-2.0
// The tile kernel: kRows x 3 vectors of sums stay in registers while one panel of a meets one panel of b.
// Each sum is one chain of fused multiply-adds in order of depth, for every number of rows.
#if defined(TESSERA_GEMM_TILE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_GEMM_TILE_INL_H
#undef TESSERA_GEMM_TILE_INL_H
#else
#define TESSERA_GEMM_TILE_INL_H
#endif

#include "framework/backends/cpu/gemm_pack-inl.h"
#include "framework/backends/cpu/vector_math-inl.h"
#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::HWY_NAMESPACE {

// 8 rows need 24 sums, 3 values of b and one of a: they fit 32 vector registers; 4 rows fit 16.
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON
constexpr int64_t kTileRows = 8;
#else
constexpr int64_t kTileRows = 4;
#endif

// Cache lines to ask for while a tile is computed: one every few steps, because a burst of them would hold
// up the loads of the tile itself.
class Prefetches {
 public:
  void clear() { count_ = 0; }
  template <class E>
  void add_box(const E* start, int64_t stride, int64_t rows, int64_t columns) {
    for (int64_t r = 0; r < rows; ++r, start += stride) {
      const uintptr_t end = reinterpret_cast<uintptr_t>(start + columns);
      for (uintptr_t line = reinterpret_cast<uintptr_t>(start) & ~uintptr_t{63}; line < end; line += 64)
        if (count_ < kCapacity) lines_[count_++] = reinterpret_cast<const char*>(line);
    }
  }
  const char* const* begin() const { return lines_; }
  const char* const* end() const { return lines_ + count_; }

 private:
  static constexpr int64_t kCapacity = 192;
  int64_t count_ = 0;
  const char* lines_[kCapacity];
};

// tile[kRows][kTileColumns] = a panel times b panel. Rows 4 to 7 of a are 4 * depth elements after 0 to 3.
template <int kRows, class T>
HWY_NOINLINE void multiply_panels(const T* HWY_RESTRICT a, const T* HWY_RESTRICT b, int64_t depth,
                                  T* HWY_RESTRICT tile, const Prefetches& prefetches) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  constexpr int64_t lanes = kLanes<T>;
  const T* a_next = a + 4 * depth;
  V sums[kRows][3];
#pragma GCC unroll 8
  for (auto& row : sums) row[0] = row[1] = row[2] = hn::Zero(d);
  const auto step = [&]() HWY_ATTR {
    const V b0 = hn::Load(d, b), b1 = hn::Load(d, b + lanes), b2 = hn::Load(d, b + 2 * lanes);
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      const V value = hn::Set(d, i < 4 ? a[i] : a_next[i - 4]);
      sums[i][0] = fused_multiply_add(value, b0, sums[i][0]);
      sums[i][1] = fused_multiply_add(value, b1, sums[i][1]);
      sums[i][2] = fused_multiply_add(value, b2, sums[i][2]);
    }
    a += 4;
    a_next += 4;
    b += 3 * lanes;
  };
  int64_t p = 0;
  const char* const* line = prefetches.begin();
  for (; p + 4 <= depth && line != prefetches.end(); p += 4, ++line) {
    hwy::Prefetch(*line);
    step();
    step();
    step();
    step();
  }
  for (; p < depth; ++p) step();
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i, tile += 3 * lanes) {
    hn::Store(sums[i][0], d, tile);
    hn::Store(sums[i][1], d, tile + lanes);
    hn::Store(sums[i][2], d, tile + 2 * lanes);
  }
}

}  // namespace tessera::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
