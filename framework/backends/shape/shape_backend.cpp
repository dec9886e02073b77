// SPDX-License-Identifier: Apache-2.0
#include "framework/backends/shape/shape_backend.h"

#include <algorithm>

namespace tessera {

std::shared_ptr<Storage> ShapeAllocator::allocate(int64_t bytes) {
  CHECK(bytes >= 0, "an allocation of {} bytes", bytes);
  const int64_t counted = rounded(bytes), peak_before = peak_bytes();
  counts_->add(counted);
  if (peak_bytes() > peak_before) workspace_at_peak_ = workspace_ ? rounded(workspace_->bytes()) : 0;
  return std::make_shared<Storage>(nullptr, bytes, Device{DeviceKind::Shape, 0},
                                   [counts = counts_, counted] { counts->remove(counted); });
}

void ShapeAllocator::reserve_workspace(int64_t bytes) {
  if (bytes <= (workspace_ ? workspace_->bytes() : 0)) return;
  workspace_.reset();  // before the new block, so that both never exist at once
  const int64_t peak_before = peak_bytes();
  workspace_ = allocate(bytes);
  if (peak_bytes() > peak_before) workspace_at_peak_ = rounded(bytes);
}

ShapeBackend::ShapeBackend(std::shared_ptr<const WorkspaceModel> workspace)
    : workspace_(workspace ? std::move(workspace) : std::make_shared<const WorkspaceModel>()) {}

void ShapeBackend::matmul(const MatmulArgs& args) {
  allocator_.reserve_workspace(workspace_->matmul(args));
}

void ShapeBackend::layer_norm_backward(const LayerNormBackwardArgs& args) {
  allocator_.reserve_workspace(workspace_->layer_norm_backward(args));
}

void ShapeBackend::rms_norm_backward(const RmsNormBackwardArgs& args) {
  allocator_.reserve_workspace(workspace_->rms_norm_backward(args));
}

void ShapeBackend::attention(const AttentionArgs& args) {
  allocator_.reserve_workspace(workspace_->attention(args));
}

void ShapeBackend::attention_backward(const AttentionBackwardArgs& args) {
  allocator_.reserve_workspace(workspace_->attention_backward(args));
}

void ShapeBackend::embedding_backward(const EmbeddingBackwardArgs& args) {
  allocator_.reserve_workspace(workspace_->embedding_backward(args));
}

void ShapeBackend::cross_entropy_stats(const CrossEntropyStatsArgs& args) {
  allocator_.reserve_workspace(workspace_->cross_entropy_stats(args));
}

void ShapeBackend::cross_entropy_loss(const CrossEntropyLossArgs& args) {
  allocator_.reserve_workspace(workspace_->cross_entropy_loss(args));
}

void ShapeBackend::column_sum(const Tensor& x, const Tensor&) {
  allocator_.reserve_workspace(workspace_->column_sum(x));
}

void ShapeBackend::sum_squares(const Tensor& x, const Tensor&) {
  allocator_.reserve_workspace(workspace_->sum_squares(x));
}

void ShapeBackend::download(const Tensor&, std::span<std::byte> to) {
  std::ranges::fill(to, std::byte{0});
}

std::unique_ptr<Backend> make_shape_backend(std::shared_ptr<const WorkspaceModel> workspace) {
  return std::make_unique<ShapeBackend>(std::move(workspace));
}

}  // namespace tessera
