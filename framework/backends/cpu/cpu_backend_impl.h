// SPDX-License-Identifier: Apache-2.0
// The class behind make_cpu_backend. Each family of operations is one source of the same name.
#pragma once
#include <thread>

#include "framework/backends/cpu/allocator.h"
#include "framework/backends/cpu/cpu_backend.h"
#include "framework/backends/cpu/scratch.h"

namespace tessera::cpu {

class CpuBackend final : public Backend {
 public:
  CpuBackend(int threads, CpuBackendOptions options);

  Device device() const override { return {}; }
  Allocator& allocator() override { return allocator_; }
  Stream& compute_stream() override { return compute_stream_; }
  Stream& comm_stream() override { return comm_stream_; }
  bool host_addressable() const override { return true; }

  void matmul(const MatmulArgs&) override;
  void layer_norm(const LayerNormArgs&) override;
  void layer_norm_backward(const LayerNormBackwardArgs&) override;
  void rms_norm(const RmsNormArgs&) override;
  void rms_norm_backward(const RmsNormBackwardArgs&) override;
  void activation(const ActivationArgs&) override;
  void activation_backward(const ActivationBackwardArgs&) override;
  void gated_activation(const GatedActivationArgs&) override;
  void gated_activation_backward(const GatedActivationBackwardArgs&) override;
  void attention(const AttentionArgs&) override;
  void attention_backward(const AttentionBackwardArgs&) override;
  void rope(const RopeArgs&) override;
  void embedding(const EmbeddingArgs&) override;
  void embedding_backward(const EmbeddingBackwardArgs&) override;
  void cross_entropy_stats(const CrossEntropyStatsArgs&) override;
  void cross_entropy_rescale(const CrossEntropyRescaleArgs& args) override;
  void cross_entropy_loss(const CrossEntropyLossArgs&) override;
  void cross_entropy_backward(const CrossEntropyBackwardArgs&) override;
  void dropout(const DropoutArgs&) override;

  void fill(const Tensor& x, double value) override;
  void copy(const Tensor& from, const Tensor& to) override;
  void add(const Tensor& a, const Tensor& b, const Tensor& y) override;
  void scale(const Tensor& x, double factor) override;
  void column_sum(const Tensor& x, const Tensor& out) override;
  void sum(std::span<const Tensor> terms, const Tensor& out) override;
  void sum_squares(const Tensor& x, const Tensor& out) override;
  void sum_squared_differences(const Tensor& x, const Tensor& y, const Tensor& out) override;
  void histogram(const Tensor& x, const Tensor& counts, const Tensor& sum) override;

  void init_normal(const InitNormalArgs&) override;
  void adamw(const AdamwArgs&) override;
  void sgd(const SgdArgs&) override;

  void upload(std::span<const std::byte> from, const Tensor& to) override;
  void download(const Tensor& from, std::span<std::byte> to) override;

 private:
  // Threads for a call: the team belongs to the thread that made the backend.
  int threads() const { return std::this_thread::get_id() == owner_ ? threads_ : 1; }

  std::thread::id owner_ = std::this_thread::get_id();
  int threads_;
  CachingAllocator allocator_;
  Scratch scratch_{allocator_};  // of the owner's calls
  Stream compute_stream_, comm_stream_;
};

}  // namespace tessera::cpu
