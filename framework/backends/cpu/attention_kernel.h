// SPDX-License-Identifier: Apache-2.0
// Attention in fp32 arithmetic by blocks of keys, for F32, BF16 and F16. A unit of work is what one thread
// does alone; units share no output, and neither their size nor the number of threads changes bits.
#pragma once
#include <cstdint>

#include "framework/ops/backend.h"

namespace tessera::cpu {

// Sizes that follow from the arguments.
struct AttentionSizes {
  static constexpr int64_t kKeyBlock = 64;
  static constexpr int64_t kUnitQueries = 256;  // queries of all heads of a group together, about

  template <class Args>
  explicit AttentionSizes(const Args& args)
      : rows(args.rows),
        heads(args.heads),
        kv_heads(args.kv_heads),
        group(args.heads / args.kv_heads),
        queries(args.q.size(0) / args.rows),
        keys(args.k.size(0) / args.rows),
        head_dim(args.q.size(1) / args.heads),
        width((head_dim + 15) / 16 * 16),
        block_queries(group < kUnitQueries ? kUnitQueries / group : 1),
        query_blocks((queries + block_queries - 1) / block_queries) {}

  int64_t rows, heads, kv_heads, group, queries, keys, head_dim;
  int64_t width;          // head_dim rounded up to whole vectors
  int64_t block_queries;  // of one head, in one block
  int64_t query_blocks;
  int64_t block_rows() const { return group * block_queries; }
};

// Scratch of one thread.
int64_t attention_scratch_bytes(const AttentionSizes& sizes);
int64_t attention_backward_scratch_bytes(const AttentionSizes& sizes);

// Unit: a block of queries of the heads that share one key head of one row.
inline int64_t attention_units(const AttentionSizes& sizes) {
  return sizes.rows * sizes.kv_heads * sizes.query_blocks;
}
void attention_unit(const AttentionArgs& args, int64_t unit, void* scratch);

// Unit: one key head of one row with all its queries, in order: the sums of dk and dv have one order.
inline int64_t attention_backward_units(const AttentionSizes& sizes) {
  return sizes.rows * sizes.kv_heads;
}
void attention_backward_unit(const AttentionBackwardArgs& args, int64_t unit, void* scratch);

}  // namespace tessera::cpu
