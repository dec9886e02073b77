// SPDX-License-Identifier: Apache-2.0
#include "framework/backends/cpu/workspace.h"

#include "framework/backends/cpu/attention_kernel.h"
#include "framework/backends/cpu/matmul.h"
#include "framework/backends/cpu/row_blocks.h"

namespace tessera {
namespace {

class CpuWorkspace final : public WorkspaceModel {
 public:
  explicit CpuWorkspace(int threads) : threads_(threads) {}

  int64_t matmul(const MatmulArgs& args) const override {
    return cpu::gemm_workspace_bytes(cpu::gemm_args(args, threads_));
  }
  int64_t layer_norm_backward(const LayerNormBackwardArgs& args) const override {
    return row_block_bytes(args.x, 2 * args.x.shape().row_elements());
  }
  int64_t rms_norm_backward(const RmsNormBackwardArgs& args) const override {
    return row_block_bytes(args.x, args.gain.elements());
  }
  int64_t attention(const AttentionArgs& args) const override {
    if (args.q.dtype() == DType::F64) return 0;
    const cpu::AttentionSizes sizes(args);
    return team_bytes(cpu::attention_units(sizes), cpu::attention_scratch_bytes(sizes));
  }
  int64_t attention_backward(const AttentionBackwardArgs& args) const override {
    if (args.q.dtype() == DType::F64) return 0;
    const cpu::AttentionSizes sizes(args);
    return team_bytes(cpu::attention_backward_units(sizes), cpu::attention_backward_scratch_bytes(sizes));
  }
  int64_t column_sum(const Tensor& x) const override { return row_block_bytes(x, x.shape().row_elements()); }

 private:
  static int64_t row_block_bytes(const Tensor& x, int64_t width) {
    return cpu::row_block_count(x.shape().rows()) * width * size_of(statistics_type(x.dtype()));
  }

  int64_t team_bytes(int64_t units, int64_t bytes) const {
    return std::min<int64_t>(threads_, units) * bytes;
  }

  int threads_;
};

}  // namespace

std::shared_ptr<const WorkspaceModel> make_cpu_workspace_model(int threads) {
  return std::make_shared<const CpuWorkspace>(threads);
}

}  // namespace tessera
