// SPDX-License-Identifier: Apache-2.0
// Small matrix products of attention: c [rows, columns] (+)= a [rows, depth] b [depth, columns], where b
// and c are rows of whole vectors and fit the caches. A few rows by a few vectors of sums stay in registers.
// Each element is one chain of fused multiply-adds in order of depth, whatever the tile it falls into, so a
// product may be cut into any pieces without changing bits.
// Include inside a foreach_target source, after simd_targets.h.
#if defined(TESSERA_ATTENTION_TILE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_ATTENTION_TILE_INL_H
#undef TESSERA_ATTENTION_TILE_INL_H
#else
#define TESSERA_ATTENTION_TILE_INL_H
#endif

#include "framework/backends/cpu/vector_math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// 6 rows by 4 vectors of sums fit 32 vector registers, 6 by 2 fit 16.
constexpr int64_t kTileRows = 6;
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON || HWY_TARGET == HWY_SCALAR
constexpr int64_t kTileVectors = 4;
#else
constexpr int64_t kTileVectors = 2;
#endif

enum class Store : uint8_t { Overwrite, Add };

struct SmallProduct {
  const float* a;
  int64_t lda;  // elements from row to row, or from depth to depth when a is transposed
  const float* b;
  int64_t ldb;
  float* c;
  int64_t ldc;
};

// kTransposed: a is stored [depth, rows].
template <bool kTransposed, int kRows, int kVectors>
HWY_NOINLINE void multiply_tile(const SmallProduct& product, int64_t depth, Store store) {
  const SmallProduct p = product;  // the stores below cannot change a copy
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  constexpr int64_t lanes = static_cast<int64_t>(HWY_LANES(float));
  V sums[kRows][kVectors];
#pragma GCC unroll 6
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v)
      sums[i][v] = store == Store::Add ? hn::LoadU(d, p.c + i * p.ldc + v * lanes) : hn::Zero(d);
  const float* HWY_RESTRICT a = p.a;
  const float* HWY_RESTRICT b = p.b;
  for (int64_t k = 0; k < depth; ++k, a += kTransposed ? p.lda : 1, b += p.ldb) {
    V row[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) row[v] = hn::LoadU(d, b + v * lanes);
#pragma GCC unroll 6
    for (int i = 0; i < kRows; ++i) {
      const V value = hn::Set(d, kTransposed ? a[i] : a[i * p.lda]);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sums[i][v] = fused_multiply_add(value, row[v], sums[i][v]);
    }
  }
#pragma GCC unroll 6
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) hn::StoreU(sums[i][v], d, p.c + i * p.ldc + v * lanes);
}

template <bool kTransposed, int kRows>
HWY_INLINE void multiply_rows(SmallProduct p, int64_t columns, int64_t depth, Store store) {
  constexpr int64_t lanes = static_cast<int64_t>(HWY_LANES(float));
  int64_t vectors = columns / lanes;
  const auto advance = [&](int64_t count) {
    p.b += count * lanes;
    p.c += count * lanes;
    vectors -= count;
  };
  for (; vectors >= kTileVectors; advance(kTileVectors))
    multiply_tile<kTransposed, kRows, static_cast<int>(kTileVectors)>(p, depth, store);
  if (kTileVectors == 4 && vectors >= 2) {
    multiply_tile<kTransposed, kRows, 2>(p, depth, store);
    advance(2);
  }
  if (vectors > 0) multiply_tile<kTransposed, kRows, 1>(p, depth, store);
}

// Up to kTileRows rows; columns is a multiple of the vector length.
template <bool kTransposed>
HWY_INLINE void multiply(const SmallProduct& p, int64_t rows, int64_t columns, int64_t depth, Store store) {
  switch (rows) {
    case 1:
      return multiply_rows<kTransposed, 1>(p, columns, depth, store);
    case 2:
      return multiply_rows<kTransposed, 2>(p, columns, depth, store);
    case 3:
      return multiply_rows<kTransposed, 3>(p, columns, depth, store);
    case 4:
      return multiply_rows<kTransposed, 4>(p, columns, depth, store);
    case 5:
      return multiply_rows<kTransposed, 5>(p, columns, depth, store);
    default:
      return multiply_rows<kTransposed, 6>(p, columns, depth, store);
  }
}

}  // namespace tessera::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
