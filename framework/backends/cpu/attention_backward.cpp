// SPDX-License-Identifier: Apache-2.0
#include "framework/backends/cpu/attention_kernel.h"
#include "framework/backends/cpu/attention_scratch.h"
#include "framework/backends/cpu/element.h"
#include "framework/backends/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "framework/backends/cpu/attention_backward.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "framework/backends/cpu/attention_parts-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::HWY_NAMESPACE {
namespace {

HWY_INLINE float dot(const float* a, const float* b, int64_t width) {
  const hn::ScalableTag<float> d;
  Sixteen sum(0);
  for (int64_t c = 0; c < width; c += 16)
    for (int i = 0; i < Sixteen::kParts; ++i) {
      const int64_t at = c + i * kVectorLanes;
      sum.part[i] = fused_multiply_add(hn::Load(d, a + at), hn::Load(d, b + at), sum.part[i]);
    }
  return total(sum);
}

template <class S>
class Backward {
 public:
  Backward(const AttentionBackwardArgs& args, void* memory)
      : args_(args),
        s_(args),
        q_(matrix_view<S>(args.q)),
        k_(matrix_view<S>(args.k)),
        v_(matrix_view<S>(args.v)),
        dropout_(args.dropout, args.mask),
        carver_(memory),
        t_(s_, carver_) {}

  void run(int64_t unit) {
    const int64_t row = unit / s_.kv_heads, kv_head = unit % s_.kv_heads;
    const VisibleKeys visible(args_.mask, s_.queries, s_.keys);
    std::fill_n(t_.dk, s_.keys * s_.width, 0.0f);
    std::fill_n(t_.dv, s_.keys * s_.width, 0.0f);
    for (int64_t block = 0; block < s_.query_blocks; ++block) {
      b_ = find_ranges(s_, visible, row, kv_head, block, t_.ranges);
      start();
      for (int64_t key = b_.key_begin; key < b_.key_end; key += kKeys)
        if (any_sees(t_.ranges, b_.count, key)) add_keys(key);
      if (args_.accumulate)
        store_dq(matrix_view<float>(args_.dq));
      else
        store_dq(matrix_view<S>(args_.dq));
    }
    if (args_.accumulate) {
      store_keys(matrix_view<float>(args_.dk), t_.dk);
      store_keys(matrix_view<float>(args_.dv), t_.dv);
    } else {
      store_keys(matrix_view<S>(args_.dk), t_.dk);
      store_keys(matrix_view<S>(args_.dv), t_.dv);
    }
  }

 private:
  int64_t head(int64_t g) const { return b_.kv_head * s_.group + g; }
  int64_t token() const { return b_.row * s_.queries + b_.first; }

  void start() {
    const auto dy = matrix_view<S>(args_.dy), y = matrix_view<S>(args_.y);
    const auto lse = matrix_view<float>(args_.lse);
    std::fill_n(t_.dq, s_.block_rows() * s_.width, 0.0f);
    for (int64_t g = 0; g < s_.group; ++g) {
      const int64_t place = g * s_.block_queries, column = head(g) * s_.head_dim;
      pack_rows(q_.row(token()) + column, q_.stride, b_.count, s_.head_dim, static_cast<float>(args_.scale),
                t_.q + place * s_.width, s_.width);
      pack_rows(dy.row(token()) + column, dy.stride, b_.count, s_.head_dim, 1.0f, t_.dy + place * s_.width,
                s_.width);
      for (int64_t i = 0; i < b_.count; ++i) {
        // One row of y at a time, in a place that is free until the first key block.
        pack_rows(y.row(token() + i) + column, y.stride, 1, s_.head_dim, 1.0f, t_.k, s_.width);
        t_.delta[place + i] = dot(t_.dy + (place + i) * s_.width, t_.k, s_.width);
        t_.lse[place + i] = lse.row(token() + i)[head(g)];
      }
    }
  }

  void add_keys(int64_t key) {
    const int64_t keys = std::min(kKeys, s_.keys - key), column = b_.kv_head * s_.head_dim;
    const int64_t place = b_.row * s_.keys + key;
    pack_rows(k_.row(place) + column, k_.stride, keys, s_.head_dim, 1.0f, t_.k, s_.width);
    pack_rows(v_.row(place) + column, v_.stride, keys, s_.head_dim, 1.0f, t_.v, s_.width);
    transpose_rows(t_.k, s_.width, keys, s_.head_dim, t_.k_transposed);
    transpose_rows(t_.v, s_.width, keys, s_.head_dim, t_.v_transposed);
    for (int64_t g = 0; g < s_.group; ++g)
      for (int64_t first = 0; first < b_.count; first += kBackwardQueries) add_queries(g, first, key, keys);
  }

  void add_queries(int64_t g, int64_t first, int64_t key, int64_t keys) {
    const int64_t count = std::min(kBackwardQueries, b_.count - first);
    const KeyRange* ranges = t_.ranges + first;
    if (!any_sees(ranges, count, key)) return;
    const int64_t place = (g * s_.block_queries + first) * s_.width;
    for (int64_t i = 0; i < count; i += kTileRows)
      score_tile(g, first, i, std::min(kTileRows, count - i), key);
    const bool all_visible = std::all_of(ranges, ranges + count, [&](const KeyRange& range) {
      return range.begin <= key && range.end >= key + keys;
    });
    for (int64_t j = 0; j < keys; j += kTileRows) {
      const int64_t tile = std::min(kTileRows, keys - j), at = key * s_.width;
      if (all_visible) {
        add_all_rows(j, tile, count, t_.weights, t_.dy + place, t_.dv + at);
        add_all_rows(j, tile, count, t_.dscores, t_.q + place, t_.dk + at);
      } else {
        add_weighted_rows(ranges, key, count, j, tile, t_.weights, t_.dy + place, t_.dv + at, s_.width);
        add_weighted_rows(ranges, key, count, j, tile, t_.dscores, t_.q + place, t_.dk + at, s_.width);
      }
    }
  }

  // add_weighted_rows where every query sees every key of the block: the same sums in the same order.
  void add_all_rows(int64_t first, int64_t count, int64_t queries, const float* weights, const float* rows,
                    float* c) const {
    multiply<true>({weights + first, kKeys, rows, s_.width, c + first * s_.width, s_.width}, count, s_.width,
                   queries, Store::Add);
  }

  // Weights and gradients of scores of `rows` queries from first + offset on, and their terms of dq.
  void score_tile(int64_t g, int64_t first, int64_t offset, int64_t rows, int64_t key) {
    const TileRanges ranges(t_.ranges + first + offset, rows, key);
    if (empty(ranges.any)) return;
    const int64_t place = g * s_.block_queries + first + offset, column = ranges.first_column;
    float* weights = t_.weights + offset * kKeys;
    float* dscores = t_.dscores + offset * kKeys;
    multiply<false>(
        {t_.q + place * s_.width, s_.width, t_.k_transposed + column, kKeys, weights + column, kKeys}, rows,
        ranges.columns, s_.head_dim, Store::Overwrite);
    multiply<false>(
        {t_.dy + place * s_.width, s_.width, t_.v_transposed + column, kKeys, dscores + column, kKeys}, rows,
        ranges.columns, s_.head_dim, Store::Overwrite);
    for (int64_t i = 0; i < rows; ++i) {
      if (empty(ranges.of[i])) continue;
      if (dropout_.active())
        softmax_row_dropped(weights + i * kKeys, dscores + i * kKeys, ranges.of[i], place + i, g,
                            first + offset + i, key);
      else
        softmax_row(weights + i * kKeys, dscores + i * kKeys, ranges.of[i], t_.lse[place + i],
                    t_.delta[place + i]);
    }
    add_weighted_values(ranges, rows, dscores, t_.k, t_.dq + place * s_.width, s_.width);
  }

  // weights = exp(scores - lse), dscores = weights * (dweights - delta); what a query does not see is never
  // used, so whole vectors are computed.
  static void softmax_row(float* weights, float* dscores, const KeyRange& range, float lse, float delta) {
    const hn::ScalableTag<float> d;
    const auto shift = hn::Set(d, lse), mean = hn::Set(d, delta);
    for (int64_t j = range.begin / 16 * 16; j < range.end; j += kVectorLanes) {
      const auto weight = exp_weight(d, hn::Sub(hn::Load(d, weights + j), shift));
      hn::Store(weight, d, weights + j);
      hn::Store(hn::Mul(weight, hn::Sub(hn::Load(d, dscores + j), mean)), d, dscores + j);
    }
  }

  void softmax_row_dropped(float* weights, float* dscores, const KeyRange& range, int64_t place, int64_t g,
                           int64_t query, int64_t key) {
    dropout_.factors(b_.row, head(g), b_.first + query, key + range.begin, key + range.end, t_.factors);
    for (int64_t j = range.begin; j < range.end; ++j) dscores[j] *= t_.factors[j - range.begin];
    softmax_row(weights, dscores, range, t_.lse[place], t_.delta[place]);
    for (int64_t j = range.begin; j < range.end; ++j) weights[j] *= t_.factors[j - range.begin];
  }

  // Stores a row of sums, or adds it. The sums are scratch.
  template <class To>
  void store_sums(float* sums, To* to) {
    if (args_.accumulate)
      for (int64_t c = 0; c < s_.head_dim; ++c) sums[c] += static_cast<float>(to[c]);
    store_row(sums, to, s_.head_dim);
  }

  template <class To>
  void store_dq(const MatrixView<To>& dq) {
    const float scale = static_cast<float>(args_.scale);
    for (int64_t g = 0; g < s_.group; ++g)
      for (int64_t i = 0; i < b_.count; ++i) {
        float* sums = t_.dq + (g * s_.block_queries + i) * s_.width;
        for (int64_t c = 0; c < s_.width; ++c) sums[c] *= scale;
        store_sums(sums, dq.row(token() + i) + head(g) * s_.head_dim);
      }
  }

  template <class To>
  void store_keys(const MatrixView<To>& to, float* sums) {
    for (int64_t j = 0; j < s_.keys; ++j)
      store_sums(sums + j * s_.width, to.row(b_.row * s_.keys + j) + b_.kv_head * s_.head_dim);
  }

  const AttentionBackwardArgs& args_;
  AttentionSizes s_;
  MatrixView<S> q_, k_, v_;
  WeightDropout dropout_;
  Carver carver_;
  AttentionBackwardScratch t_;
  QueryBlock b_{};
};

void backward_unit(const AttentionBackwardArgs& args, int64_t unit, void* scratch) {
  visit_storage(args.q.dtype(), [&]<class S>() { Backward<S>(args, scratch).run(unit); });
}

}  // namespace
}  // namespace tessera::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu {
namespace {
HWY_EXPORT(backward_unit);
}

void attention_backward_unit(const AttentionBackwardArgs& args, int64_t unit, void* scratch) {
  HWY_DYNAMIC_DISPATCH(backward_unit)(args, unit, scratch);
}

}  // namespace tessera::cpu
#endif
