// SPDX-License-Identifier: Apache-2.0
#include "framework/train/matmul_peak.h"

#include <algorithm>
#include <chrono>

#include "framework/ops/memory.h"

namespace tessera {

double measure_matmul_peak(Backend& backend, DType dtype) {
  constexpr int64_t kSize = 2048;
  constexpr int kRuns = 10;
  const Tensor a = zeros(backend, dtype, {kSize, kSize}), b = zeros(backend, dtype, {kSize, kSize});
  const Tensor c = empty(backend, dtype, {kSize, kSize});
  double best = 0;
  for (int run = 0; run < kRuns; ++run) {
    const auto start = std::chrono::steady_clock::now();
    backend.matmul({.a = a, .b = b, .c = c});
    backend.compute_stream().synchronize();
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    best = std::max(best, 2.0 * kSize * kSize * kSize / seconds.count());
  }
  return best;
}

}  // namespace tessera
