// SPDX-License-Identifier: Apache-2.0
// Copies blocks of a and b into the order in which the tile kernel reads them, widening 16-bit storage.
// A panel of b is [depth][kTileColumns]; a sub-panel of a is [depth][4]. Lanes past the edge of the matrix
// hold some value of the matrix: they reach only tile elements that are never stored.
#if defined(TESSERA_GEMM_PACK_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_GEMM_PACK_INL_H
#undef TESSERA_GEMM_PACK_INL_H
#else
#define TESSERA_GEMM_PACK_INL_H
#endif

#include <algorithm>

#include "framework/backends/cpu/vector_convert-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
constexpr int64_t kLanes = static_cast<int64_t>(HWY_LANES(T));
template <class T>
constexpr int64_t kTileColumns = 3 * kLanes<T>;

#if HWY_TARGET != HWY_SCALAR
// Lane block g of the result holds 4 elements at source + 4 * g * stride.
template <class D, class S>
HWY_INLINE hn::Vec<D> load_row_blocks(D d, const S* HWY_RESTRICT source, int64_t stride) {
  const hn::FixedTag<float, 4> d4;
  if constexpr (kLanes<float> == 4) {
    return load(d4, source);
  } else {
    const hn::FixedTag<float, 8> d8;
    const auto low = hn::Combine(d8, load(d4, source + 4 * stride), load(d4, source));
    if constexpr (kLanes<float> == 8) {
      return low;
    } else {
      const auto high = hn::Combine(d8, load(d4, source + 12 * stride), load(d4, source + 8 * stride));
      return hn::Combine(d, high, low);
    }
  }
}

// Transposes kLanes rows of 4 elements into 4 vectors of kLanes, stored `out_stride` apart.
template <class S>
HWY_INLINE void transpose_4(const S* HWY_RESTRICT source, int64_t stride, float* HWY_RESTRICT out,
                            int64_t out_stride) {
  const hn::ScalableTag<float> d;
  const hn::Repartition<double, decltype(d)> dd;
  const auto r0 = load_row_blocks(d, source, stride);
  const auto r1 = load_row_blocks(d, source + stride, stride);
  const auto r2 = load_row_blocks(d, source + 2 * stride, stride);
  const auto r3 = load_row_blocks(d, source + 3 * stride, stride);
  const auto low01 = hn::BitCast(dd, hn::InterleaveLower(d, r0, r1));
  const auto low23 = hn::BitCast(dd, hn::InterleaveLower(d, r2, r3));
  const auto high01 = hn::BitCast(dd, hn::InterleaveUpper(d, r0, r1));
  const auto high23 = hn::BitCast(dd, hn::InterleaveUpper(d, r2, r3));
  hn::Store(hn::BitCast(d, hn::InterleaveLower(dd, low01, low23)), d, out);
  hn::Store(hn::BitCast(d, hn::InterleaveUpper(dd, low01, low23)), d, out + out_stride);
  hn::Store(hn::BitCast(d, hn::InterleaveLower(dd, high01, high23)), d, out + 2 * out_stride);
  hn::Store(hn::BitCast(d, hn::InterleaveUpper(dd, high01, high23)), d, out + 3 * out_stride);
}
#endif

// Panel of columns [0, columns) of b stored [depth, n].
template <class S, class T>
void pack_b_panel(const S* HWY_RESTRICT b, int64_t ldb, int64_t columns, int64_t depth, T* HWY_RESTRICT out) {
  const hn::ScalableTag<T> d;
  constexpr int64_t lanes = kLanes<T>;
  if (columns >= kTileColumns<T>) {
    for (int64_t p = 0; p < depth; ++p, b += ldb, out += kTileColumns<T>) {
      hn::Store(load(d, b), d, out);
      hn::Store(load(d, b + lanes), d, out + lanes);
      hn::Store(load(d, b + 2 * lanes), d, out + 2 * lanes);
    }
    return;
  }
  for (int64_t p = 0; p < depth; ++p, b += ldb, out += kTileColumns<T>)
    for (int64_t j = 0; j < kTileColumns<T>; ++j) out[j] = static_cast<T>(b[std::min(j, columns - 1)]);
}

// The same of b stored [n, depth].
template <class S, class T>
void pack_b_panel_transposed(const S* HWY_RESTRICT b, int64_t ldb, int64_t columns, int64_t depth,
                             T* HWY_RESTRICT out) {
  constexpr int64_t lanes = kLanes<T>;
  for (int64_t j = 0; j < kTileColumns<T>; j += lanes, out += lanes) {
    int64_t p = 0;
#if HWY_TARGET != HWY_SCALAR
    if constexpr (std::is_same_v<T, float>) {
      if (j + lanes <= columns)
        for (; p + 4 <= depth; p += 4)
          transpose_4(b + j * ldb + p, ldb, out + p * kTileColumns<T>, kTileColumns<T>);
    }
#endif
    for (; p < depth; ++p)
      for (int64_t l = 0; l < lanes; ++l)
        out[p * kTileColumns<T> + l] = static_cast<T>(b[std::min(j + l, columns - 1) * ldb + p]);
  }
}

// Columns [begin, end) of depth of the sub-panels of a stored [m, depth]. `out` is where depth 0 would go.
template <class S, class T>
void pack_a(const S* HWY_RESTRICT a, int64_t lda, int64_t rows, int64_t begin, int64_t end, int64_t depth,
            T* HWY_RESTRICT out) {
  for (int64_t i = 0; i < rows; i += 4, out += 4 * depth) {
    const S* r0 = a + i * lda;
    const S* r1 = a + std::min(i + 1, rows - 1) * lda;
    const S* r2 = a + std::min(i + 2, rows - 1) * lda;
    const S* r3 = a + std::min(i + 3, rows - 1) * lda;
    int64_t p = begin;
#if HWY_TARGET != HWY_SCALAR
    const hn::ScalableTag<T> d;
    for (; p + kLanes<T> <= end; p += kLanes<T>)
      hn::StoreInterleaved4(load(d, r0 + p), load(d, r1 + p), load(d, r2 + p), load(d, r3 + p), d,
                            out + 4 * p);
#endif
    for (; p < end; ++p) {
      out[4 * p] = static_cast<T>(r0[p]);
      out[4 * p + 1] = static_cast<T>(r1[p]);
      out[4 * p + 2] = static_cast<T>(r2[p]);
      out[4 * p + 3] = static_cast<T>(r3[p]);
    }
  }
}

// The same of a stored [depth, m].
template <class S, class T>
void pack_a_transposed(const S* HWY_RESTRICT a, int64_t lda, int64_t rows, int64_t begin, int64_t end,
                       int64_t depth, T* HWY_RESTRICT out) {
  int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::FixedTag<float, 4> d4;
  if constexpr (std::is_same_v<T, float>) {
    const int64_t whole = rows / 4 * 4;
    for (int64_t p = begin; p < end; ++p) {
      const S* from = a + p * lda;
      T* to = out + 4 * p;
      for (i = 0; i < whole; i += 4, to += 4 * depth) hn::Store(load(d4, from + i), d4, to);
    }
    i = whole;
  }
#endif
  for (; i < rows; i += 4)
    for (int64_t p = begin; p < end; ++p)
      for (int64_t l = 0; l < 4; ++l)
        out[i * depth + 4 * p + l] = static_cast<T>(a[p * lda + std::min(i + l, rows - 1)]);
}

}  // namespace tessera::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
