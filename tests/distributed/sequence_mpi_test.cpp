// SPDX-License-Identifier: Apache-2.0
// Attention cut over MPI processes, run by a launcher: each rank compares its part with one rank's whole.
#include <cstdio>
#include <exception>

#include "framework/backends/cpu/cpu_backend.h"
#include "framework/base/check.h"
#include "framework/comm/mpi/mpi_communicator.h"
#include "framework/parallel/sequence/sequence_attention.h"
#include "tests/support/sequence_case.h"

namespace tessera::test {
namespace {

// Throws at the first difference.
void check(const SequenceCase& c, Communicator& world, Backend& backend) {
  const Matrices inputs = make_inputs(c);
  const LayerRun whole = run_whole(c, inputs);
  const SequenceCut cut = make_sequence_cut(c.length, world.size(), world.rank());
  for (const SequenceMode mode : {SequenceMode::Ring, SequenceMode::Ulysses, SequenceMode::Gather}) {
    Layer layer(c, cut, backend, local_inputs(c, cut, inputs));
    const auto core = make_sequence_attention(mode, world, settings_of(c));
    const std::string problem = part_differs(c, cut, layer.run(*core).results, whole.results, 1e-12);
    CHECK(problem.empty(), "mode {} on rank {}: {}", static_cast<int>(mode), world.rank(), problem);
  }
}

}  // namespace
}  // namespace tessera::test

int main() {
  using namespace tessera;
  const auto backend = make_cpu_backend(1);
  const auto world = make_mpi_world(*backend, 60);
  try {
    test::check({.rows = 3, .length = 61, .documents = {20, 1, 9}, .window = 30, .dropout = 0.2}, *world,
                *backend);
    test::check({.length = 29, .share = {.heads = 12, .head_dim = 4, .group = 5, .first_head = 3}}, *world,
                *backend);
  } catch (const std::exception& error) {
    world->abort(error.what());
    return 5;
  }
  std::printf("rank %d: the same as one rank\n", world->rank());
  return 0;
}
