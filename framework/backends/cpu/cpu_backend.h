// SPDX-License-Identifier: Apache-2.0
// The backend that computes on the host, with a team of threads of its own: the fast one on a machine
// without a device, the reference for all others, and in F64 the one that gradients are checked with.
//
// One instance a rank, made on the rank's thread. Calls come from that thread; copy, add, sum, fill and the
// allocator may also be called from a communicator's progress thread at the same time, where they run
// without the team. No result depends on the number of threads: the order of every sum is fixed by the data.
#pragma once
#include <memory>

#include "framework/ops/backend.h"

namespace tessera {

struct CpuBackendOptions {
  bool poison = false;  // new memory is filled with 0xFF bytes: NaN in every float type
};

std::unique_ptr<Backend> make_cpu_backend(int threads, CpuBackendOptions options = {});

}  // namespace tessera
