// SPDX-License-Identifier: Apache-2.0
// Runs a function on thread ranks, each with a CPU backend of one thread, and throws what failed first.
//   run_ranks(3, [](Communicator& world, int rank) { ... });
//   run_ranks(3, [](Communicator& world, Backend& backend, int rank) { ... });
#pragma once
#include <memory>
#include <type_traits>

#include "framework/backends/cpu/cpu_backend.h"
#include "framework/comm/in_process/thread_ranks.h"

namespace tessera::test {

template <class Body>
void run_ranks(int ranks, const Body& body, const ThreadRankOptions& options = {.timeout_s = 60}) {
  run_thread_ranks(ranks, options, [&](InProcessWorld& world, int rank) {
    const std::unique_ptr<Backend> backend = make_cpu_backend(1);
    const std::unique_ptr<Communicator> communicator = world.attach(rank, *backend);
    if constexpr (std::is_invocable_v<Body, Communicator&, Backend&, int>)
      body(*communicator, *backend, rank);
    else
      body(*communicator, rank);
  });
}

}  // namespace tessera::test
