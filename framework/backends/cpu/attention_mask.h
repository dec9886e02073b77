// SPDX-License-Identifier: Apache-2.0
// Which keys a query sees, and which weights dropout keeps: the only two places that know.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>

#include "framework/backends/cpu/dropout_threshold.h"
#include "framework/ops/backend.h"

namespace tessera::cpu {

// Keys [begin, end) of the local slice.
struct KeyRange {
  int64_t begin, end;
};

class VisibleKeys {
 public:
  VisibleKeys(const AttentionMask& mask, int64_t queries, int64_t keys)
      : starts_(mask.document_start.data<int32_t>()),
        window_(mask.window),
        query_offset_(mask.query_offset),
        key_offset_(mask.key_offset),
        queries_(queries),
        keys_(keys) {}

  KeyRange of(int64_t row, int64_t query) const {
    const int64_t position = query_offset_ + query;
    int64_t first = starts_[row * queries_ + query];
    if (window_ > 0) first = std::max(first, position - window_ + 1);
    const int64_t end = std::clamp<int64_t>(position + 1 - key_offset_, 0, keys_);
    return {std::clamp<int64_t>(first - key_offset_, 0, end), end};
  }

 private:
  const int32_t* starts_;
  int64_t window_, query_offset_, key_offset_, queries_, keys_;
};

// See AttentionDropout for the definition.
class WeightDropout {
 public:
  WeightDropout(const AttentionDropout& dropout, const AttentionMask& mask)
      : active_(dropout.probability > 0),
        head_offset_(dropout.head_offset),
        query_offset_(mask.query_offset),
        key_offset_(mask.key_offset) {
    if (!active_) return;
    key_ = mixed(dropout.key, static_cast<uint64_t>(*dropout.step.data<int64_t>()));
    row_ids_ = dropout.row_ids.data<int64_t>();
    threshold_ = keep_threshold(dropout.probability);
    factor_ = 1 / (1 - dropout.probability);
  }

  bool active() const { return active_; }

  // factors[j - begin] = 0 or 1 / (1 - probability) for keys [begin, end) of one query.
  template <class R>
  void factors(int64_t row, int64_t head, int64_t query, int64_t begin, int64_t end, R* out) const {
    const RandomKey key = mixed(key_, static_cast<uint64_t>(row_ids_[row]));
    const uint64_t low =
        static_cast<uint64_t>(head_offset_ + head) << 32 | static_cast<uint64_t>(query_offset_ + query);
    std::array<uint32_t, 4> bits{};
    for (int64_t j = begin; j < end; ++j) {
      const uint64_t column = static_cast<uint64_t>(key_offset_ + j);
      if (j == begin || column % 4 == 0) bits = philox(key, low, column / 4);
      out[j - begin] = bits[column % 4] < threshold_ ? static_cast<R>(factor_) : R(0);
    }
  }

 private:
  bool active_;
  int64_t head_offset_, query_offset_, key_offset_;
  RandomKey key_{};
  const int64_t* row_ids_ = nullptr;
  uint64_t threshold_ = 0;
  double factor_ = 1;
};

}  // namespace tessera::cpu
