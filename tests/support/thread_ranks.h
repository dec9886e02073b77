// SPDX-License-Identifier: Apache-2.0
// Runs a function on thread ranks, each with a backend of its own, and throws what failed first.
//   run_ranks(3, [](Communicator& world, int rank) { ... });                      // CPU, one thread each
//   run_ranks(3, [](Communicator& world, Backend& backend, int rank) { ... });
//   run_ranks_on(3, [](int rank) { return make_cpu_backend(2); }, body);
#pragma once
#include <memory>
#include <type_traits>

#include "framework/backends/cpu/cpu_backend.h"
#include "framework/comm/in_process/thread_ranks.h"

namespace tessera::test {

template <class MakeBackend, class Body>
void run_ranks_on(int ranks, const MakeBackend& make_backend, const Body& body,
                  const ThreadRankOptions& options = {.patience = 60}) {
  run_thread_ranks(ranks, options, [&](InProcessWorld& world, int rank) {
    const std::unique_ptr<Backend> backend = make_backend(rank);
    const std::unique_ptr<Communicator> communicator = world.attach(rank, *backend);
    if constexpr (std::is_invocable_v<Body, Communicator&, Backend&, int>)
      body(*communicator, *backend, rank);
    else
      body(*communicator, rank);
  });
}

template <class Body>
void run_ranks(int ranks, const Body& body, const ThreadRankOptions& options = {.patience = 60}) {
  run_ranks_on(
      ranks, [](int) { return make_cpu_backend(1); }, body, options);
}

}  // namespace tessera::test
