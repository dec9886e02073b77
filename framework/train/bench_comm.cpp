// SPDX-License-Identifier: Apache-2.0
#include "framework/train/bench_comm.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <set>

#include "framework/base/check.h"
#include "framework/ops/memory.h"

namespace tessera {
namespace {

// Of a group whose nodes have the same number of ranks.
double formula_in_units_of_data(AllReduceAlgorithm algorithm, int ranks) {
  switch (algorithm) {
    case AllReduceAlgorithm::ParameterServer:
      return ranks - 1;
    case AllReduceAlgorithm::Tree:
      return ranks == 2 ? 1 : ranks == 3 ? 1.5 : 2;
    default:
      return 2.0 * (ranks - 1) / ranks;
  }
}

int hops_of(AllReduceAlgorithm algorithm, int ranks, bool several_nodes) {
  switch (algorithm) {
    case AllReduceAlgorithm::Ring:
      return 2 * (ranks - 1);
    case AllReduceAlgorithm::Tree:
      return 2 * (static_cast<int>(std::bit_width(static_cast<unsigned>(ranks))) - 1);
    case AllReduceAlgorithm::Hierarchical:
      return several_nodes ? 4 : 2;
    default:
      return 2;
  }
}

int64_t bytes_out_of_node(const ReductionPlan& plan, const std::vector<int>& nodes, int64_t elements) {
  const auto node_of = [&](int rank) { return nodes[static_cast<size_t>(rank)]; };
  int64_t out = 0;
  for (size_t c = 0; c < plan.chunks.size(); ++c) {
    std::vector<int> peers = plan.chunks[c].children(plan.rank);
    if (plan.chunks[c].parent >= 0) peers.push_back(plan.chunks[c].parent);
    for (const int peer : peers)
      if (node_of(peer) != node_of(plan.rank)) out += plan.range(elements, static_cast<int>(c)).size();
  }
  return out * size_of(DType::F32);
}

}  // namespace

AllReduceBenchmark bench_all_reduce(Communicator& world, Backend& backend, AllReduceAlgorithm algorithm,
                                    int64_t elements, int repeats) {
  const std::vector<int> nodes = world.nodes();
  const bool several_nodes = std::set<int>(nodes.begin(), nodes.end()).size() > 1;
  const int ranks = world.size();
  AllReduceBenchmark result{.algorithm = algorithm, .bytes = elements * size_of(DType::F32)};
  result.chosen = chosen_algorithm(AllReduceAlgorithm::Auto, result.bytes, nodes) == algorithm;
  result.formula_bytes = formula_in_units_of_data(algorithm, ranks) * static_cast<double>(result.bytes);
  result.hops = hops_of(algorithm, ranks, several_nodes);

  world.use_all_reduce(algorithm);
  const Tensor data = empty(backend, DType::F32, {elements});
  std::vector<double> seconds;
  for (int i = 0; i <= repeats; ++i) {
    backend.fill(data, world.rank() + 1);
    world.traffic().reset();
    world.barrier();
    const auto start = std::chrono::steady_clock::now();
    world.all_reduce(data, Reduce::Sum, backend.comm_stream()).wait();
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    double slowest[1] = {elapsed.count()};
    world.all_reduce_host(std::span(slowest), Reduce::Max);
    if (i > 0) seconds.push_back(slowest[0]);
  }
  const float sum = to_host<float>(backend, data.narrow(elements - 1, 1))[0];
  CHECK(sum == static_cast<float>(ranks * (ranks + 1) / 2), "{} summed to {}", name_of(algorithm), sum);
  std::sort(seconds.begin(), seconds.end());
  result.seconds = seconds[seconds.size() / 2];
  result.fastest_seconds = seconds.front();

  int64_t sent[1] = {world.traffic().sent(TrafficKind::AllReduce)};
  world.all_reduce_host(std::span(sent), Reduce::Max);
  result.busiest_rank_bytes = sent[0];
  std::vector<int64_t> by_node(nodes.size());
  by_node[static_cast<size_t>(nodes[static_cast<size_t>(world.rank())])] =
      bytes_out_of_node(plan_of(algorithm, world.rank(), nodes), nodes, elements);
  world.all_reduce_host(std::span(by_node), Reduce::Sum);
  result.busiest_node_bytes = *std::max_element(by_node.begin(), by_node.end());
  return result;
}

}  // namespace tessera
