// SPDX-License-Identifier: Apache-2.0
#include "framework/backends/cpu/attention_kernel.h"
#include "framework/backends/cpu/attention_plain.h"
#include "framework/backends/cpu/attention_scratch.h"
#include "framework/backends/cpu/cpu_backend_impl.h"
#include "framework/backends/cpu/parallel.h"

namespace tessera::cpu {
namespace {

// Units cost different amounts (causal masks), so threads take them as they become free.
template <class F>
void run_units(int threads, int64_t units, int64_t scratch_bytes, Scratch& scratch, F&& body) {
  const int team = static_cast<int>(std::min<int64_t>(threads, units));
  char* memory = static_cast<char*>(scratch.reserve(team * scratch_bytes));
  std::atomic<int64_t> next{0};
  run_team(team, [&](int thread) {
    for (int64_t unit = next++; unit < units; unit = next++) body(unit, memory + thread * scratch_bytes);
  });
}

}  // namespace

int64_t attention_scratch_bytes(const AttentionSizes& sizes) {
  Carver carver(nullptr);
  const AttentionScratch measured(sizes, carver);
  return carver.used();
}

int64_t attention_backward_scratch_bytes(const AttentionSizes& sizes) {
  Carver carver(nullptr);
  const AttentionBackwardScratch measured(sizes, carver);
  return carver.used();
}

void CpuBackend::attention(const AttentionArgs& args) {
  if (args.q.dtype() == DType::F64) return attention_plain(threads(), args);
  const AttentionSizes sizes(args);
  run_units(threads(), attention_units(sizes), attention_scratch_bytes(sizes), scratch_,
            [&](int64_t unit, void* memory) { attention_unit(args, unit, memory); });
}

void CpuBackend::attention_backward(const AttentionBackwardArgs& args) {
  if (args.q.dtype() == DType::F64) return attention_backward_plain(threads(), args);
  const AttentionSizes sizes(args);
  run_units(threads(), attention_backward_units(sizes), attention_backward_scratch_bytes(sizes), scratch_,
            [&](int64_t unit, void* memory) { attention_backward_unit(args, unit, memory); });
}

}  // namespace tessera::cpu
