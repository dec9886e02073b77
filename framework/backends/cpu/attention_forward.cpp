// SPDX-License-Identifier: Apache-2.0
#include "framework/backends/cpu/attention_kernel.h"
#include "framework/backends/cpu/attention_scratch.h"
#include "framework/backends/cpu/element.h"
#include "framework/backends/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "framework/backends/cpu/attention_forward.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "framework/backends/cpu/attention_parts-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::HWY_NAMESPACE {
namespace {

// Exponentials stay below exp(kStale): sums are scaled anew only when the maximum rises by more, which after
// the first key block is rare.
constexpr float kStale = 8.0f;

// Raises the running maximum of one query to that of the present key block.
HWY_INLINE void raise_maximum(float block_maximum, float& maximum, float* HWY_RESTRICT sum_exp,
                              float* HWY_RESTRICT sums, int64_t width) {
  if (HWY_LIKELY(!(block_maximum > maximum + kStale))) return;
  const hn::ScalableTag<float> d;
  if (maximum > -kInfinity) {
    const auto factor = exp_weight(d, hn::Set(d, maximum - block_maximum));
    for (int64_t i = 0; i < 16; i += kVectorLanes)
      hn::Store(hn::Mul(hn::Load(d, sum_exp + i), factor), d, sum_exp + i);
    for (int64_t c = 0; c < width; c += kVectorLanes)
      hn::Store(hn::Mul(hn::Load(d, sums + c), factor), d, sums + c);
  }
  maximum = block_maximum;
}

// Turns scores of one query in one key block into exponentials, and carries its running maximum and sums
// along. kGroups groups of sixteen columns from `scores` on.
template <int kGroups>
HWY_INLINE void softmax_groups(float* HWY_RESTRICT scores, float& maximum, float* HWY_RESTRICT sum_exp,
                               float* HWY_RESTRICT sums, int64_t width) {
  const hn::ScalableTag<float> d;
  constexpr int kVectors = kGroups * Sixteen::kParts;
  Sixteen top(-kInfinity), sum(0);
#pragma GCC unroll 64
  for (int i = 0; i < kVectors; ++i) {
    auto& part = top.part[i % Sixteen::kParts];
    part = hn::Max(part, hn::Load(d, scores + i * kVectorLanes));
  }
  raise_maximum(largest(top), maximum, sum_exp, sums, width);
  const auto shift = hn::Set(d, maximum);
  for (int i = 0; i < Sixteen::kParts; ++i) sum.part[i] = hn::Load(d, sum_exp + i * kVectorLanes);
#pragma GCC unroll 64
  for (int i = 0; i < kVectors; ++i) {
    float* at = scores + i * kVectorLanes;
    const auto weight = exp_weight(d, hn::Sub(hn::Load(d, at), shift));
    hn::Store(weight, d, at);
    auto& part = sum.part[i % Sixteen::kParts];
    part = hn::Add(part, weight);
  }
  for (int i = 0; i < Sixteen::kParts; ++i) hn::Store(sum.part[i], d, sum_exp + i * kVectorLanes);
}

HWY_INLINE void softmax_step(float* HWY_RESTRICT scores, const KeyRange& range, float& maximum,
                             float* HWY_RESTRICT sum_exp, float* HWY_RESTRICT sums, int64_t width) {
  const int64_t first = range.begin / 16 * 16, last = (range.end + 15) / 16 * 16;
  for (int64_t j = first; j < range.begin; ++j) scores[j] = -kInfinity;
  for (int64_t j = range.end; j < last; ++j) scores[j] = -kInfinity;
  static_assert(kKeys == 64);
  switch ((last - first) / 16) {
    case 1:
      return softmax_groups<1>(scores + first, maximum, sum_exp, sums, width);
    case 2:
      return softmax_groups<2>(scores + first, maximum, sum_exp, sums, width);
    case 3:
      return softmax_groups<3>(scores + first, maximum, sum_exp, sums, width);
    default:
      return softmax_groups<4>(scores + first, maximum, sum_exp, sums, width);
  }
}

template <class S>
class Forward {
 public:
  Forward(const AttentionArgs& args, void* memory)
      : args_(args),
        s_(args),
        q_(matrix_view<S>(args.q)),
        k_(matrix_view<S>(args.k)),
        v_(matrix_view<S>(args.v)),
        dropout_(args.dropout, args.mask),
        carver_(memory),
        t_(s_, carver_) {}

  void run(int64_t unit) {
    const int64_t block = unit % s_.query_blocks, kv_head = unit / s_.query_blocks % s_.kv_heads;
    const VisibleKeys visible(args_.mask, s_.queries, s_.keys);
    b_ = find_ranges(s_, visible, unit / s_.query_blocks / s_.kv_heads, kv_head, block, t_.ranges);
    if (args_.accumulate && b_.key_begin >= b_.key_end) return;
    start();
    for (int64_t key = b_.key_begin; key < b_.key_end; key += kKeys)
      if (any_sees(t_.ranges, b_.count, key)) add_keys(key);
    if (args_.accumulate)
      finish(matrix_view<float>(args_.y));
    else
      finish(matrix_view<S>(args_.y));
  }

 private:
  int64_t head(int64_t g) const { return b_.kv_head * s_.group + g; }
  int64_t token() const { return b_.row * s_.queries + b_.first; }

  void start() {
    for (int64_t g = 0; g < s_.group; ++g)
      pack_rows(q_.row(token()) + head(g) * s_.head_dim, q_.stride, b_.count, s_.head_dim,
                static_cast<float>(args_.scale), t_.q + g * s_.block_queries * s_.width, s_.width);
    std::fill_n(t_.sums, s_.block_rows() * s_.width, 0.0f);
    std::fill_n(t_.sum_exp, s_.block_rows() * 16, 0.0f);
    std::fill_n(t_.maximum, s_.block_rows(), -kInfinity);
    if (args_.accumulate) go_on();
  }

  // A result over other keys is a state of the same softmax, with the log-sum-exp as the maximum.
  void go_on() {
    const auto y = matrix_view<float>(args_.y), lse = matrix_view<float>(args_.lse);
    for (int64_t g = 0; g < s_.group; ++g) {
      const int64_t place = g * s_.block_queries;
      pack_rows(y.row(token()) + head(g) * s_.head_dim, y.stride, b_.count, s_.head_dim, 1.0f,
                t_.sums + place * s_.width, s_.width);
      for (int64_t i = 0; i < b_.count; ++i) {
        t_.maximum[place + i] = lse.row(token() + i)[head(g)];
        t_.sum_exp[(place + i) * 16] = t_.maximum[place + i] == -kInfinity ? 0.0f : 1.0f;
      }
    }
  }

  void add_keys(int64_t key) {
    const int64_t keys = std::min(kKeys, s_.keys - key), column = b_.kv_head * s_.head_dim;
    const int64_t place = b_.row * s_.keys + key;
    pack_rows(k_.row(place) + column, k_.stride, keys, s_.head_dim, 1.0f, t_.k, s_.width);
    transpose_rows(t_.k, s_.width, keys, s_.head_dim, t_.k_transposed);
    pack_rows(v_.row(place) + column, v_.stride, keys, s_.head_dim, 1.0f, t_.v, s_.width);
    for (int64_t g = 0; g < s_.group; ++g)
      for (int64_t i = 0; i < b_.count; i += kTileRows) add_tile(g, i, key);
  }

  void add_tile(int64_t g, int64_t first, int64_t key) {
    const int64_t rows = std::min(kTileRows, b_.count - first);
    const TileRanges ranges(t_.ranges + first, rows, key);
    if (empty(ranges.any)) return;
    const int64_t place = g * s_.block_queries + first;
    multiply<false>({t_.q + place * s_.width, s_.width, t_.k_transposed + ranges.first_column, kKeys,
                     t_.weights + ranges.first_column, kKeys},
                    rows, ranges.columns, s_.head_dim, Store::Overwrite);
    for (int64_t i = 0; i < rows; ++i) {
      if (empty(ranges.of[i])) continue;
      float* weights = t_.weights + i * kKeys;
      softmax_step(weights, ranges.of[i], t_.maximum[place + i], t_.sum_exp + (place + i) * 16,
                   t_.sums + (place + i) * s_.width, s_.width);
      if (dropout_.active()) drop(weights, g, first + i, key, ranges.of[i]);
    }
    add_weighted_values(ranges, rows, t_.weights, t_.v, t_.sums + place * s_.width, s_.width);
  }

  void drop(float* weights, int64_t g, int64_t query, int64_t key, const KeyRange& range) {
    dropout_.factors(b_.row, head(g), b_.first + query, key + range.begin, key + range.end, t_.factors);
    for (int64_t j = range.begin; j < range.end; ++j) weights[j] *= t_.factors[j - range.begin];
  }

  template <class Y>
  void finish(const MatrixView<Y>& y) {
    const auto lse = matrix_view<float>(args_.lse);
    for (int64_t g = 0; g < s_.group; ++g) {
      const int64_t first = g * s_.block_queries;
      for (int64_t i = 0; i < b_.count; ++i)
        finish_query(first + i, y.row(token() + i) + head(g) * s_.head_dim);
      add_logarithms(t_.maximum + first, t_.sum_exp + first * 16, b_.count);
      for (int64_t i = 0; i < b_.count; ++i) lse.row(token() + i)[head(g)] = t_.maximum[first + i];
    }
  }

  // Divides by the sum of exponentials, and leaves that sum in the first of its places.
  template <class Y>
  void finish_query(int64_t place, Y* y) {
    const hn::ScalableTag<float> d;
    Sixteen parts(0);
    for (int p = 0; p < Sixteen::kParts; ++p)
      parts.part[p] = hn::Load(d, t_.sum_exp + place * 16 + p * kVectorLanes);
    const float sum = total(parts);
    t_.sum_exp[place * 16] = sum;
    float* sums = t_.sums + place * s_.width;
    // Without a visible key the sums are 0 and so is the result.
    const auto inverse = hn::Set(d, sum == 0 ? 0.0f : 1 / sum);
    for (int64_t c = 0; c < s_.width; c += kVectorLanes)
      hn::Store(hn::Mul(hn::Load(d, sums + c), inverse), d, sums + c);
    store_row(sums, y, s_.head_dim);
  }

  // maximum[i] += log(sums[16 * i])
  static void add_logarithms(float* maximum, const float* sums, int64_t count) {
    const hn::ScalableTag<float> d;
    for (int64_t i = 0; i < count; i += kVectorLanes) {
      const int64_t rows = std::min(kVectorLanes, count - i);
      alignas(64) float buffer[static_cast<size_t>(kVectorLanes)] = {};
      for (int64_t l = 0; l < rows; ++l) buffer[l] = sums[(i + l) * 16];
      store(d, hn::Add(load(d, maximum + i, rows), log(d, hn::Load(d, buffer))), maximum + i, rows);
    }
  }

  const AttentionArgs& args_;
  AttentionSizes s_;
  MatrixView<S> q_, k_, v_;
  WeightDropout dropout_;
  Carver carver_;
  AttentionScratch t_;
  QueryBlock b_{};
};

void forward_unit(const AttentionArgs& args, int64_t unit, void* scratch) {
  visit_storage(args.q.dtype(), [&]<class S>() { Forward<S>(args, scratch).run(unit); });
}

}  // namespace
}  // namespace tessera::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu {
namespace {
HWY_EXPORT(forward_unit);
}

void attention_unit(const AttentionArgs& args, int64_t unit, void* scratch) {
  HWY_DYNAMIC_DISPATCH(forward_unit)(args, unit, scratch);
}

}  // namespace tessera::cpu
#endif
