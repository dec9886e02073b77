// SPDX-License-Identifier: Apache-2.0
// Working memory that a call needs beside its arguments, in bytes, as pure functions of shapes, types and
// thread counts: never of data, pointers or the machine. A backend keeps one block, as large as its
// largest call so far, from its allocator. The shape backend imitates it with the same model, so memory is
// predicted without the device. 0 where a call needs nothing.
#pragma once
#include <cstdint>

#include "framework/ops/backend.h"

namespace tessera {

class WorkspaceModel {
 public:
  virtual ~WorkspaceModel() = default;
  virtual int64_t matmul(const MatmulArgs&) const { return 0; }
  virtual int64_t layer_norm_backward(const LayerNormBackwardArgs&) const { return 0; }
  virtual int64_t rms_norm_backward(const RmsNormBackwardArgs&) const { return 0; }
  virtual int64_t attention(const AttentionArgs&) const { return 0; }
  virtual int64_t attention_backward(const AttentionBackwardArgs&) const { return 0; }
  virtual int64_t embedding_backward(const EmbeddingBackwardArgs&) const { return 0; }
  virtual int64_t cross_entropy_stats(const CrossEntropyStatsArgs&) const { return 0; }
  virtual int64_t cross_entropy_loss(const CrossEntropyLossArgs&) const { return 0; }
  virtual int64_t column_sum(const Tensor& /*x*/) const { return 0; }
  virtual int64_t sum_squares(const Tensor& /*x*/) const { return 0; }
};

}  // namespace tessera
