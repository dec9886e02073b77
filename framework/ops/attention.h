// SPDX-License-Identifier: Apache-2.0
// Masked attention without a matrix of scores in memory, and the rotary embedding of its queries and keys.
// q, k, v and their gradients may be column slices of one buffer.
#pragma once
#include "framework/ops/backend.h"

namespace tessera {

struct AttentionOptions {
  int64_t rows = 1, heads = 1, kv_heads = 1;  // query heads share key heads in groups of heads / kv_heads
  double scale = 1;
  AttentionMask mask = {};
  AttentionDropout dropout = {};
  int64_t visible_pairs = 0;  // (query, key) pairs of one head that the mask lets through, for counting
};

struct AttentionResult {
  Tensor y, lse;  // [rows * queries, heads * head_dim], [rows * queries, heads]
};
AttentionResult attention(Backend& backend, const Tensor& q, const Tensor& k, const Tensor& v,
                          const AttentionOptions& options);

// Writes dq, dk and dv. Recomputes the scores: they count as hardware operations only.
struct AttentionGradients {
  Tensor dq, dk, dv;
};
void attention_backward(Backend& backend, const Tensor& dy, const Tensor& q, const Tensor& k, const Tensor& v,
                        const AttentionResult& forward, const AttentionGradients& gradients,
                        const AttentionOptions& options);

// The same, keys by keys: the softmax runs on from one call to the next in fp32 (F64), so that the order of
// the keys and where they are cut change rounding only.
// What queries like q have seen before the first call: y = 0, lse = -infinity, both of the statistics type.
AttentionResult nothing_attended(Backend& backend, const Tensor& q, int64_t heads);
// These keys join those that `result` is over. y and lse may be slices.
void attention_add(Backend& backend, const Tensor& q, const Tensor& k, const Tensor& v,
                   const AttentionResult& result, const AttentionOptions& options);
// `forward` is over all keys; adds to dq, dk and dv, which are of the statistics type. All may be slices.
void attention_backward_add(Backend& backend, const Tensor& dy, const Tensor& q, const Tensor& k,
                            const Tensor& v, const AttentionResult& forward,
                            const AttentionGradients& gradients, const AttentionOptions& options);

// Rotates the heads of x in place; table and positions as in RopeArgs.
void rope(Backend& backend, const Tensor& x, const Tensor& table, const Tensor& positions, int64_t head_dim);
// The transpose: turns a gradient back.
void rope_backward(Backend& backend, const Tensor& dx, const Tensor& table, const Tensor& positions,
                   int64_t head_dim);

}  // namespace tessera
