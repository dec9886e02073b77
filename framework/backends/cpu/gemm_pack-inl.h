// SPDX-License-Identifier: Apache-2.0
// Copies blocks of a and b into the order in which the tile kernel reads them, widening 16-bit storage.
// A panel of b is [depth][kTileColumns]; a sub-panel of a is [depth][4]. Lanes past the edge of the matrix
// hold zero or some value of the matrix, never what was in the memory before, which might be slow to compute
// with: they reach only tile elements that are not stored.
#if defined(TESSERA_GEMM_PACK_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_GEMM_PACK_INL_H
#undef TESSERA_GEMM_PACK_INL_H
#else
#define TESSERA_GEMM_PACK_INL_H
#endif

#include <algorithm>

#include "framework/backends/cpu/vector_convert-inl.h"
#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
constexpr int64_t kLanes = static_cast<int64_t>(HWY_LANES(T));
template <class T>
constexpr int64_t kTileColumns = 3 * kLanes<T>;

#if HWY_TARGET != HWY_SCALAR
// Transposes 4 x 4 within each 128-bit block: lane i of block g of result j is lane j of block g of row i.
template <class V>
HWY_INLINE void transpose_blocks(V& r0, V& r1, V& r2, V& r3) {
  const hn::DFromV<V> d;
  const hn::Repartition<double, decltype(d)> dd;
  const auto low01 = hn::BitCast(dd, hn::InterleaveLower(d, r0, r1));
  const auto low23 = hn::BitCast(dd, hn::InterleaveLower(d, r2, r3));
  const auto high01 = hn::BitCast(dd, hn::InterleaveUpper(d, r0, r1));
  const auto high23 = hn::BitCast(dd, hn::InterleaveUpper(d, r2, r3));
  r0 = hn::BitCast(d, hn::InterleaveLower(dd, low01, low23));
  r1 = hn::BitCast(d, hn::InterleaveUpper(dd, low01, low23));
  r2 = hn::BitCast(d, hn::InterleaveLower(dd, high01, high23));
  r3 = hn::BitCast(d, hn::InterleaveUpper(dd, high01, high23));
}

// Transposes kLanes rows of kLanes elements into as many vectors, stored `out_stride` apart. Each row is read
// once: rows a power of two apart fall on few lines of the cache, which could not keep them.
template <class S>
HWY_INLINE void transpose_square(const S* HWY_RESTRICT source, int64_t stride, float* HWY_RESTRICT out,
                                 int64_t out_stride) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  constexpr int64_t lanes = kLanes<float>, groups = lanes / 4;
  V rows[groups][4];
#pragma GCC unroll 4
  for (int64_t g = 0; g < groups; ++g) {
#pragma GCC unroll 4
    for (int64_t r = 0; r < 4; ++r) rows[g][r] = load(d, source + (4 * g + r) * stride);
    transpose_blocks(rows[g][0], rows[g][1], rows[g][2], rows[g][3]);
  }
  // rows[g][j] holds, in block b, rows 4g to 4g + 3 of column 4b + j: transpose the blocks, too.
#pragma GCC unroll 4
  for (int64_t j = 0; j < 4; ++j) {
    float* to = out + j * out_stride;
    if constexpr (lanes == 4) {
      hn::Store(rows[0][j], d, to);
    } else if constexpr (lanes == 8) {
      hn::Store(hn::ConcatLowerLower(d, rows[1][j], rows[0][j]), d, to);
      hn::Store(hn::ConcatUpperUpper(d, rows[1][j], rows[0][j]), d, to + 4 * out_stride);
    } else {
      const V low02 = hn::ConcatLowerLower(d, rows[2][j], rows[0][j]);
      const V low13 = hn::ConcatLowerLower(d, rows[3][j], rows[1][j]);
      const V high02 = hn::ConcatUpperUpper(d, rows[2][j], rows[0][j]);
      const V high13 = hn::ConcatUpperUpper(d, rows[3][j], rows[1][j]);
      hn::Store(hn::OddEvenBlocks(hn::SwapAdjacentBlocks(low13), low02), d, to);
      hn::Store(hn::OddEvenBlocks(low13, hn::SwapAdjacentBlocks(low02)), d, to + 4 * out_stride);
      hn::Store(hn::OddEvenBlocks(hn::SwapAdjacentBlocks(high13), high02), d, to + 8 * out_stride);
      hn::Store(hn::OddEvenBlocks(high13, hn::SwapAdjacentBlocks(high02)), d, to + 12 * out_stride);
    }
  }
}
#endif

// Asks for memory `bytes` after `place`, which may lie past the end of the matrix.
HWY_INLINE void prefetch_after(const void* place, int64_t bytes) {
  hwy::Prefetch(
      reinterpret_cast<const char*>(reinterpret_cast<uintptr_t>(place) + static_cast<uintptr_t>(bytes)));
}

// All panels of columns [0, columns) of b stored [depth, n]. Row by row, because panels of a wide matrix
// touch as many pages as rows.
template <class S, class T>
void pack_b(const S* HWY_RESTRICT b, int64_t ldb, int64_t columns, int64_t depth, T* HWY_RESTRICT out) {
  const hn::ScalableTag<T> d;
  constexpr int64_t lanes = kLanes<T>, width = kTileColumns<T>;
  constexpr int64_t rows_ahead = 4;
  const int64_t whole = columns / width * width;
  for (int64_t p = 0; p < depth; ++p, b += ldb, out += width) {
    T* panel = out;
    int64_t j = 0;
    for (; j < whole; j += width, panel += width * depth) {
      for (int64_t byte = 0; byte < width * static_cast<int64_t>(sizeof(S)); byte += 64)
        prefetch_after(b + j, rows_ahead * ldb * static_cast<int64_t>(sizeof(S)) + byte);
      hn::Store(load(d, b + j), d, panel);
      hn::Store(load(d, b + j + lanes), d, panel + lanes);
      hn::Store(load(d, b + j + 2 * lanes), d, panel + 2 * lanes);
    }
    for (const int64_t end = j < columns ? j + width : j; j < end; j += lanes, panel += lanes)
      hn::Store(load(d, b + j, columns - j), d, panel);
  }
}

// One panel of b stored [n, depth]. Asks for the rows of the next as it goes.
template <class S, class T>
void pack_b_panel_transposed(const S* HWY_RESTRICT b, int64_t ldb, int64_t columns, int64_t depth,
                             T* HWY_RESTRICT out) {
  constexpr int64_t lanes = kLanes<T>, width = kTileColumns<T>;
  for (int64_t j = 0; j < width; j += lanes, out += lanes) {
    int64_t p = 0;
#if HWY_TARGET != HWY_SCALAR
    if constexpr (std::is_same_v<T, float>) {
      if (j + lanes <= columns) {
        const S* rows = b + j * ldb;
        for (; p + lanes <= depth; p += lanes) {
          for (int64_t l = 0; l < lanes; ++l)
            prefetch_after(rows + l * ldb + p, lanes * ldb * static_cast<int64_t>(sizeof(S)));
          transpose_square(rows + p, ldb, out + p * width, width);
        }
      }
    }
#endif
    for (; p < depth; ++p)
      for (int64_t l = 0; l < lanes; ++l)
        out[p * width + l] = static_cast<T>(b[std::min(j + l, columns - 1) * ldb + p]);
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
