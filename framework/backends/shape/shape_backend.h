// SPDX-License-Identifier: Apache-2.0
// A backend without data: tensors have sizes and no memory, calls compute nothing. It counts bytes as the
// imitated backend's allocator would, workspaces included, so running the real modules on it predicts
// their memory and their operations. Host code that reads a tensor gets zeros.
#pragma once
#include <memory>

#include "framework/ops/backend.h"
#include "framework/ops/workspace.h"

namespace tessera {

class ShapeAllocator final : public Allocator {
 public:
  std::shared_ptr<Storage> allocate(int64_t bytes) override;
  // Keeps one block of working memory, as large as the largest request so far.
  void reserve_workspace(int64_t bytes);
  // The part of peak_bytes() that was working memory at the moment of the peak.
  int64_t workspace_at_peak() const { return workspace_at_peak_; }

 private:
  std::shared_ptr<Storage> workspace_;
  int64_t workspace_at_peak_ = 0;
};

class ShapeBackend final : public Backend {
 public:
  // Imitates the backend whose model this is; nullptr: calls need no workspace.
  explicit ShapeBackend(std::shared_ptr<const WorkspaceModel> workspace = nullptr);

  Device device() const override { return {DeviceKind::Shape, 0}; }
  ShapeAllocator& allocator() override { return allocator_; }
  Stream& compute_stream() override { return stream_; }
  Stream& comm_stream() override { return stream_; }

  void matmul(const MatmulArgs& args) override;
  void layer_norm(const LayerNormArgs&) override {}
  void layer_norm_backward(const LayerNormBackwardArgs& args) override;
  void rms_norm(const RmsNormArgs&) override {}
  void rms_norm_backward(const RmsNormBackwardArgs& args) override;
  void activation(const ActivationArgs&) override {}
  void activation_backward(const ActivationBackwardArgs&) override {}
  void gated_activation(const GatedActivationArgs&) override {}
  void gated_activation_backward(const GatedActivationBackwardArgs&) override {}
  void attention(const AttentionArgs& args) override;
  void attention_backward(const AttentionBackwardArgs& args) override;
  void rope(const RopeArgs&) override {}
  void embedding(const EmbeddingArgs&) override {}
  void embedding_backward(const EmbeddingBackwardArgs& args) override;
  void cross_entropy_stats(const CrossEntropyStatsArgs& args) override;
  void cross_entropy_rescale(const CrossEntropyRescaleArgs&) override {}
  void cross_entropy_loss(const CrossEntropyLossArgs& args) override;
  void cross_entropy_backward(const CrossEntropyBackwardArgs&) override {}
  void dropout(const DropoutArgs&) override {}

  void fill(const Tensor&, double) override {}
  void copy(const Tensor&, const Tensor&) override {}
  void add(const Tensor&, const Tensor&, const Tensor&) override {}
  void scale(const Tensor&, double) override {}
  void column_sum(const Tensor& x, const Tensor& out) override;
  void sum(std::span<const Tensor>, const Tensor&) override {}
  void sum_squares(const Tensor& x, const Tensor& out) override;
  void sum_squared_differences(const Tensor&, const Tensor&, const Tensor&) override {}
  void histogram(const Tensor&, const Tensor&, const Tensor&) override {}

  void init_normal(const InitNormalArgs&) override {}
  void adamw(const AdamwArgs&) override {}
  void sgd(const SgdArgs&) override {}

  void upload(std::span<const std::byte>, const Tensor&) override {}
  void download(const Tensor& from, std::span<std::byte> to) override;

 private:
  std::shared_ptr<const WorkspaceModel> workspace_;
  ShapeAllocator allocator_;
  Stream stream_;
};

std::unique_ptr<Backend> make_shape_backend(std::shared_ptr<const WorkspaceModel> workspace = nullptr);

}  // namespace tessera
