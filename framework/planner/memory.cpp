// SPDX-License-Identifier: Apache-2.0
#include "framework/planner/memory.h"

#include <cmath>
#include <numeric>

namespace tessera {

int64_t MemoryPlan::saved() const {
  return std::accumulate(saved_by_unit.begin(), saved_by_unit.end(), int64_t{0});
}

ParameterCounts count_parameters(std::span<const ParameterSpec> parameters) {
  ParameterCounts counts;
  for (const ParameterSpec& spec : parameters) {
    if (spec.role == Role::Buffer) continue;
    const int64_t elements = spec.shape.elements();
    counts.total += elements;
    if (spec.role == Role::Embedding) counts.embedding += elements;
    if (spec.trainable) counts.trainable += elements;
  }
  return counts;
}

int choose_recomputed_blocks(int blocks, int64_t budget_bytes, const std::function<int64_t(int)>& peak) {
  if (peak(0) <= budget_bytes) return 0;
  const int64_t least = peak(blocks);
  if (least > budget_bytes) {
    const double gib = static_cast<double>(int64_t{1} << 30);
    fail(
        ExitCode::Usage,
        "activation_checkpointing.memory_budget_gb = {:.4g} cannot be met: with all {} blocks recomputed one "
        "rank needs {:.6g}; raise it to that, or lower train.micro_batch_size or train.seq_length",
        static_cast<double>(budget_bytes) / gib, blocks,
        std::ceil(static_cast<double>(least) / gib * 1e4) / 1e4);
  }
  int too_few = 0, enough = blocks;
  while (enough - too_few > 1) {
    const int middle = too_few + (enough - too_few) / 2;
    (peak(middle) <= budget_bytes ? enough : too_few) = middle;
  }
  return enough;
}

}  // namespace tessera
