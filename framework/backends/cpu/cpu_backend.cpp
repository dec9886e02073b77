// SPDX-License-Identifier: Apache-2.0
#include "framework/backends/cpu/cpu_backend.h"

#include "framework/backends/cpu/cpu_backend_impl.h"

namespace tessera {

namespace cpu {
CpuBackend::CpuBackend(int threads, CpuBackendOptions options)
    : threads_(threads), allocator_(options.poison) {
  CHECK(threads >= 1, "a CPU backend needs at least one thread, got {}", threads);
}
}  // namespace cpu

std::unique_ptr<Backend> make_cpu_backend(int threads, CpuBackendOptions options) {
  return std::make_unique<cpu::CpuBackend>(threads, options);
}

}  // namespace tessera
