// SPDX-License-Identifier: Apache-2.0
#include "framework/comm/shape/shape_communicator.h"

#include <gtest/gtest.h>

#include "framework/base/check.h"
#include "framework/ops/memory.h"
#include "tests/support/thread_ranks.h"

namespace tessera::test {
namespace {

// One call of each kind, on sizes that do and do not divide.
void make_calls(Communicator& group, Backend& backend) {
  Stream& stream = backend.comm_stream();
  const int n = group.size();
  const Tensor data = zeros(backend, DType::BF16, {1003});
  group.all_reduce(data, Reduce::Sum, stream).wait();
  const Tensor shard = zeros(backend, DType::F32, {7, 3}), whole = zeros(backend, DType::F32, {7 * n, 3});
  group.all_gather(shard, whole, stream).wait();
  group.reduce_scatter(whole, shard, Reduce::Sum, stream).wait();
  group.broadcast(data, n - 1, stream).wait();
  const std::vector<int64_t> rows(static_cast<size_t>(n), 7);
  group.all_to_all(whole, rows, cloned(backend, whole), rows, stream).wait();
  const PeerOp operations[] = {{PeerOp::Kind::Send, (group.rank() + 1) % n, shard},
                               {PeerOp::Kind::Receive, (group.rank() + n - 1) % n, cloned(backend, shard)}};
  group.exchange(operations, stream).wait();
  std::vector<int64_t> values{1, 2, 3};
  group.all_reduce_host(std::span<int64_t>(values), Reduce::Max);
}

constexpr TrafficKind kKinds[] = {TrafficKind::AllReduce, TrafficKind::AllGather, TrafficKind::ReduceScatter,
                                  TrafficKind::AllToAll,  TrafficKind::Broadcast, TrafficKind::Exchange,
                                  TrafficKind::Host};

TEST(ShapeCommunicator, CountsTheBytesOfRealRanks) {
  run_ranks(3, [](Communicator& world, Backend& backend, int rank) {
    const auto imagined = make_shape_world(3, rank, backend);
    make_calls(world, backend);
    make_calls(*imagined, backend);
    for (const TrafficKind kind : kKinds) {
      EXPECT_GT(world.traffic().sent(TrafficKind::AllReduce), 0);
      EXPECT_EQ(imagined->traffic().sent(kind), world.traffic().sent(kind)) << static_cast<int>(kind);
    }
  });
}

TEST(ShapeCommunicator, CountsTheFormulasOfDivisibleSizes) {
  const auto backend = make_cpu_backend(1);
  const auto world = make_shape_world(8, 3, *backend);
  const Tensor data = zeros(*backend, DType::F32, {800});
  world->all_reduce(data, Reduce::Sum, backend->comm_stream()).wait();
  EXPECT_EQ(world->traffic().sent(TrafficKind::AllReduce), 2 * 3200 * 7 / 8);
  const Tensor shard = zeros(*backend, DType::F32, {100});
  world->reduce_scatter(data, shard, Reduce::Sum, backend->comm_stream()).wait();
  EXPECT_EQ(world->traffic().sent(TrafficKind::ReduceScatter), 3200 * 7 / 8);
  world->all_gather(shard, data, backend->comm_stream()).wait();
  EXPECT_EQ(world->traffic().sent(TrafficKind::AllGather), 3200 * 7 / 8);
}

TEST(ShapeCommunicator, CountsTheStagingOfProcesses) {
  const auto backend = make_cpu_backend(1);
  const Tensor data = zeros(*backend, DType::F32, {100});
  const int64_t live = backend->allocator().live_bytes();
  const auto peak_of = [&](ShapeRanks ranks) {
    const auto world = make_shape_world(3, 0, *backend, ranks);
    backend->allocator().reset_peak();
    world->all_reduce(data, Reduce::Sum, backend->comm_stream()).wait();
    return backend->allocator().peak_bytes() - live;
  };
  EXPECT_EQ(peak_of(ShapeRanks::Threads), 0);
  EXPECT_EQ(peak_of(ShapeRanks::Processes), 2 * Allocator::rounded(34 * 4));  // the chunk of both others
}

TEST(ShapeCommunicator, RefusesWhatNeedsTheOtherRanks) {
  const auto backend = make_cpu_backend(1);
  const auto world = make_shape_world(8, 3, *backend);
  EXPECT_THROW(world->split(0, 0, "half"), Error);
  std::vector<double> values{0.5};
  world->all_reduce_host(std::span<double>(values), Reduce::Sum);
  EXPECT_EQ(values[0], 4.0);
  world->abort("enough");
  EXPECT_THROW(world->barrier(), Error);
}

}  // namespace
}  // namespace tessera::test
