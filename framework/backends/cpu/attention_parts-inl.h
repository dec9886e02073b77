// SPDX-License-Identifier: Apache-2.0
// What forward and backward of blockwise attention share: packing, and products over visible pairs only.
//
// Letters: a tile is up to kTileRows queries of one head; key blocks hold kKeyBlock keys. Nothing that a
// query does not see enters a sum, not even times zero: it may be NaN.
// Include inside a foreach_target source, after simd_targets.h.
#if defined(TESSERA_ATTENTION_PARTS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_ATTENTION_PARTS_INL_H
#undef TESSERA_ATTENTION_PARTS_INL_H
#else
#define TESSERA_ATTENTION_PARTS_INL_H
#endif

#include <algorithm>
#include <limits>

#include "framework/backends/cpu/attention_kernel.h"
#include "framework/backends/cpu/attention_mask.h"
#include "framework/backends/cpu/attention_scratch.h"
#include "framework/backends/cpu/attention_tile-inl.h"
#include "framework/backends/cpu/sixteen-inl.h"
#include "hwy/cache_control.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int64_t kKeys = AttentionSizes::kKeyBlock;
static_assert(kTileRows == kMaxTileRows && kBackwardQueries % kTileRows == 0);
constexpr float kInfinity = std::numeric_limits<float>::infinity();
// rows of `count` elements as fp32 rows of `width` elements, times `factor`; the rest is zero.
template <class S>
void pack_rows(const S* from, int64_t stride, int64_t rows, int64_t count, float factor, float* to,
               int64_t width) {
  const hn::ScalableTag<float> d;
  const auto times = hn::Set(d, factor);
  // Rows lie far apart: the hardware does not foresee the next.
  constexpr int64_t ahead = 8;
  for (int64_t i = 0; i < rows; ++i, from += stride, to += width) {
    if (i + ahead < rows)
      for (int64_t c = 0; c < count; c += 64 / static_cast<int64_t>(sizeof(S)))
        hwy::Prefetch(from + ahead * stride + c);
    int64_t c = 0;
    for (; c + kVectorLanes <= count; c += kVectorLanes)
      hn::Store(hn::Mul(load(d, from + c), times), d, to + c);
    for (; c < width; c += kVectorLanes) hn::Store(hn::Mul(load(d, from + c, count - c), times), d, to + c);
  }
}

// Transposes packed rows [rows, width] to [count, kKeys]; columns from `rows` on are zero.
HWY_INLINE void transpose_rows(const float* HWY_RESTRICT from, int64_t width, int64_t rows, int64_t count,
                               float* HWY_RESTRICT to) {
  int64_t j = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::FixedTag<float, 4> d4;
  for (; j + 4 <= rows; j += 4)
    for (int64_t c = 0; c < count; c += 4) {
      const float* source = from + j * width + c;
      const auto r0 = hn::LoadU(d4, source), r1 = hn::LoadU(d4, source + width);
      const auto r2 = hn::LoadU(d4, source + 2 * width), r3 = hn::LoadU(d4, source + 3 * width);
      const hn::RepartitionToWide<decltype(d4)> dw;
      const auto low01 = hn::BitCast(dw, hn::InterleaveLower(d4, r0, r1));
      const auto low23 = hn::BitCast(dw, hn::InterleaveLower(d4, r2, r3));
      const auto high01 = hn::BitCast(dw, hn::InterleaveUpper(d4, r0, r1));
      const auto high23 = hn::BitCast(dw, hn::InterleaveUpper(d4, r2, r3));
      float* out = to + c * kKeys + j;
      // Rows of `to` beyond count are scratch: it has width rows.
      hn::StoreU(hn::BitCast(d4, hn::InterleaveLower(dw, low01, low23)), d4, out);
      hn::StoreU(hn::BitCast(d4, hn::InterleaveUpper(dw, low01, low23)), d4, out + kKeys);
      hn::StoreU(hn::BitCast(d4, hn::InterleaveLower(dw, high01, high23)), d4, out + 2 * kKeys);
      hn::StoreU(hn::BitCast(d4, hn::InterleaveUpper(dw, high01, high23)), d4, out + 3 * kKeys);
    }
#endif
  for (; j < kKeys; ++j)
    for (int64_t c = 0; c < count; ++c) to[c * kKeys + j] = j < rows ? from[j * width + c] : 0.0f;
}

template <class S>
void store_row(const float* from, S* to, int64_t count) {
  const hn::ScalableTag<float> d;
  int64_t c = 0;
  for (; c + kVectorLanes <= count; c += kVectorLanes) store(d, hn::Load(d, from + c), to + c);
  if (c < count) store(d, hn::Load(d, from + c), to + c, count - c);
}

// The keys of one key block that a query sees, counted from the block's first key; empty: end <= begin.
HWY_INLINE KeyRange clipped(const KeyRange& range, int64_t first_key) {
  return {std::max<int64_t>(range.begin - first_key, 0), std::min(range.end - first_key, kKeys)};
}
HWY_INLINE bool empty(const KeyRange& range) {
  return range.end <= range.begin;
}

// Visible keys of a tile's queries in one key block.
struct TileRanges {
  KeyRange of[kTileRows];
  KeyRange any{kKeys, 0};         // of at least one query
  KeyRange all{0, kKeys};         // of every query; may be empty
  int64_t first_column, columns;  // whole groups of 16 that hold `any`

  TileRanges(const KeyRange* ranges, int64_t rows, int64_t first_key) {
    for (int64_t i = 0; i < rows; ++i) {
      of[i] = clipped(ranges[i], first_key);
      all = {std::max(all.begin, of[i].begin), std::min(all.end, of[i].end)};
      if (!empty(of[i])) any = {std::min(any.begin, of[i].begin), std::max(any.end, of[i].end)};
    }
    first_column = any.begin / 16 * 16;
    columns = (any.end + 15) / 16 * 16 - first_column;
  }
};

// c [rows, columns] += weights [rows, keys] values [keys, columns] over visible pairs.
HWY_INLINE void add_weighted_values(const TileRanges& ranges, int64_t rows, const float* weights,
                                    const float* values, float* c, int64_t columns) {
  const auto product = [&](int64_t row, int64_t count, int64_t begin, int64_t end) {
    if (begin < end)
      multiply<false>({weights + row * kKeys + begin, kKeys, values + begin * columns, columns,
                       c + row * columns, columns},
                      count, columns, end - begin, Store::Add);
  };
  if (empty(ranges.all)) {
    for (int64_t i = 0; i < rows; ++i) product(i, 1, ranges.of[i].begin, ranges.of[i].end);
    return;
  }
  for (int64_t i = 0; i < rows; ++i) product(i, 1, ranges.of[i].begin, ranges.all.begin);
  product(0, rows, ranges.all.begin, ranges.all.end);
  for (int64_t i = 0; i < rows; ++i) product(i, 1, ranges.all.end, ranges.of[i].end);
}

// c [keys, columns] += weights^T [keys, queries] rows [queries, columns] over visible pairs, for keys
// [first, first + count), at most kTileRows.
HWY_INLINE void add_weighted_rows(const KeyRange* ranges, int64_t first_key, int64_t queries, int64_t first,
                                  int64_t count, const float* weights, const float* rows, float* c,
                                  int64_t columns) {
  const int64_t last = first + count;
  const auto product = [&](int64_t query, int64_t depth, int64_t begin, int64_t end) {
    multiply<true>({weights + query * kKeys + begin, kKeys, rows + query * columns, columns,
                    c + begin * columns, columns},
                   end - begin, columns, depth, Store::Add);
  };
  const auto sees_all = [&](int64_t query) {
    return ranges[query].begin - first_key <= first && ranges[query].end - first_key >= last;
  };
  for (int64_t query = 0; query < queries;) {
    if (sees_all(query)) {
      const int64_t begin = query;
      while (query < queries && sees_all(query)) ++query;
      product(begin, query - begin, first, last);
    } else {
      const int64_t begin = std::max(ranges[query].begin - first_key, first);
      const int64_t end = std::min(ranges[query].end - first_key, last);
      if (begin < end) product(query, 1, begin, end);
      ++query;
    }
  }
}

// The part of a unit's work that one block of queries is. Forward and backward walk it alike.
struct QueryBlock {
  int64_t row, kv_head, first, count;  // queries [first, first + count) of each head of the group
  int64_t key_begin = 0, key_end = 0;  // key blocks that any query sees
};

HWY_INLINE QueryBlock find_ranges(const AttentionSizes& s, const VisibleKeys& visible, int64_t row,
                                  int64_t kv_head, int64_t block, KeyRange* ranges) {
  const int64_t first = block * s.block_queries;
  QueryBlock result{row, kv_head, first, std::min(s.block_queries, s.queries - first)};
  result.key_begin = s.keys;
  for (int64_t i = 0; i < result.count; ++i) {
    ranges[i] = visible.of(row, first + i);
    if (empty(ranges[i])) continue;
    result.key_begin = std::min(result.key_begin, ranges[i].begin / kKeys * kKeys);
    result.key_end = std::max(result.key_end, ranges[i].end);
  }
  return result;
}

HWY_INLINE bool any_sees(const KeyRange* ranges, int64_t count, int64_t first_key) {
  return std::any_of(ranges, ranges + count,
                     [&](const KeyRange& range) { return !empty(clipped(range, first_key)); });
}

// Calls f.template operator()<S>() with the storage type; F64 has a path of its own.
template <class F>
void visit_storage(DType dtype, F&& f) {
  if (dtype == DType::F32) return f.template operator()<float>();
  if (dtype == DType::BF16) return f.template operator()<BFloat16>();
  f.template operator()<Float16>();
}

}  // namespace tessera::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
