// SPDX-License-Identifier: Apache-2.0
// The arrays that one thread of blockwise attention works in. Rows are `width` long, queries of one head
// after those of another, block_queries apart.
#pragma once
#include <cstdint>

#include "framework/backends/cpu/attention_kernel.h"
#include "framework/backends/cpu/attention_mask.h"

namespace tessera::cpu {

// Queries whose weights are kept at a time in the backward: whole tiles.
constexpr int64_t kBackwardQueries = 60;
constexpr int64_t kMaxTileRows = 6;

// Hands out pieces of one 64-byte aligned block; without a block it only counts.
class Carver {
 public:
  explicit Carver(void* memory) : memory_(static_cast<char*>(memory)) {}
  template <class T>
  T* take(int64_t count) {
    T* result = memory_ ? reinterpret_cast<T*>(memory_ + used_) : nullptr;
    used_ += (count * static_cast<int64_t>(sizeof(T)) + 63) / 64 * 64;
    return result;
  }
  int64_t used() const { return used_; }

 private:
  char* memory_;
  int64_t used_ = 0;
};

struct AttentionScratch {
  AttentionScratch(const AttentionSizes& s, Carver& carver)
      : ranges(carver.take<KeyRange>(s.block_queries)),
        q(carver.take<float>(s.block_rows() * s.width)),
        sums(carver.take<float>(s.block_rows() * s.width)),
        maximum(carver.take<float>(s.block_rows())),
        sum_exp(carver.take<float>(s.block_rows() * 16)),
        k(carver.take<float>(AttentionSizes::kKeyBlock * s.width)),
        k_transposed(carver.take<float>(AttentionSizes::kKeyBlock * s.width)),
        v(carver.take<float>(AttentionSizes::kKeyBlock * s.width)),
        weights(carver.take<float>(kMaxTileRows * AttentionSizes::kKeyBlock)),
        factors(carver.take<float>(AttentionSizes::kKeyBlock)) {}

  KeyRange* ranges;
  float *q, *sums;  // [block_rows, width]: scaled queries, sums of weighted values
  float* maximum;   // [block_rows]
  float* sum_exp;   // [block_rows, 16]: running sums by column modulo 16
  float* k;         // [keys, width]
  float* k_transposed;
  float* v;
  float* weights;  // [tile rows, keys]: scores, then exponentials
  float* factors;  // [keys]: dropout of one query
};

struct AttentionBackwardScratch {
  AttentionBackwardScratch(const AttentionSizes& s, Carver& carver)
      : ranges(carver.take<KeyRange>(s.block_queries)),
        q(carver.take<float>(s.block_rows() * s.width)),
        dy(carver.take<float>(s.block_rows() * s.width)),
        dq(carver.take<float>(s.block_rows() * s.width)),
        lse(carver.take<float>(s.block_rows())),
        delta(carver.take<float>(s.block_rows())),
        k(carver.take<float>(AttentionSizes::kKeyBlock * s.width)),
        v(carver.take<float>(AttentionSizes::kKeyBlock * s.width)),
        k_transposed(carver.take<float>(AttentionSizes::kKeyBlock * s.width)),
        v_transposed(carver.take<float>(AttentionSizes::kKeyBlock * s.width)),
        weights(carver.take<float>(kBackwardQueries * AttentionSizes::kKeyBlock)),
        dscores(carver.take<float>(kBackwardQueries * AttentionSizes::kKeyBlock)),
        factors(carver.take<float>(AttentionSizes::kKeyBlock)),
        dk(carver.take<float>(s.keys * s.width)),
        dv(carver.take<float>(s.keys * s.width)) {}

  KeyRange* ranges;
  float *q, *dy, *dq;  // [block_rows, width]; q is scaled
  float *lse, *delta;  // [block_rows]; delta is the dot product of dy and y
  float *k, *v;        // [keys of the block, width]
  float *k_transposed, *v_transposed;
  float *weights, *dscores;  // [kBackwardQueries, keys of the block]
  float* factors;
  float *dk, *dv;  // [all keys of the row, width]
};

}  // namespace tessera::cpu
