// SPDX-License-Identifier: Apache-2.0
// The MPI transport, run by a launcher: with no argument the collectives, compared with thread ranks; with
// "large" messages beyond 2^31 bytes; with another word one way to fail (see comm_mpi_failures.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <thread>

#include "framework/backends/cpu/cpu_backend.h"
#include "framework/base/check.h"
#include "framework/comm/mpi/mpi_communicator.h"
#include "framework/ops/memory.h"
#include "tests/support/collective_cases.h"
#include "tests/support/thread_ranks.h"

namespace tessera::test {
namespace {

using namespace std::chrono_literals;

// Set by main for the tests, which all ranks run in the same order.
Communicator* world = nullptr;
Backend* backend = nullptr;

TEST(Mpi, CollectivesHaveTheBitsOfThreadRanks) {
  const std::string bytes = run_collective_cases(*world, *backend);
  std::string of_threads;
  run_ranks(world->size(), [&](Communicator& threads, Backend& thread_backend, int rank) {
    const std::string result = run_collective_cases(threads, thread_backend);
    if (rank == world->rank()) of_threads = result;
  });
  EXPECT_TRUE(bytes == of_threads) << "rank " << world->rank() << ": " << bytes.size() << " and "
                                   << of_threads.size() << " bytes differ";
}

TEST(Mpi, EveryAlgorithmHasTheBitsOfThreadRanks) {
  const std::string bytes = run_all_reduce_cases(*world, *backend);
  run_ranks(world->size(), [&](Communicator& threads, Backend& thread_backend, int rank) {
    const std::string result = run_all_reduce_cases(threads, thread_backend);
    if (rank == world->rank()) {
      EXPECT_TRUE(result == bytes) << "rank " << rank;
    }
  });
}

TEST(Mpi, DelaysChangeNothing) {
  std::mt19937 random(static_cast<unsigned>(world->rank()));
  const auto other = world->split(0, -world->rank(), "reversed");
  for (int round = 0; round < 20; ++round) {
    const Tensor a = zeros(*backend, DType::F32, {1003}), b = zeros(*backend, DType::F32, {1003});
    backend->fill(a, world->rank() + 1);
    backend->fill(b, other->rank() + 1);
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 2000));
    // Two communicators at once, in another order on every second rank.
    Work first, second;
    if (world->rank() % 2 == 0) first = world->all_reduce(a, Reduce::Sum, backend->comm_stream());
    second = other->all_reduce(b, Reduce::Sum, backend->comm_stream());
    if (world->rank() % 2 == 1) first = world->all_reduce(a, Reduce::Sum, backend->comm_stream());
    second.wait();
    first.wait();
    const auto total = static_cast<float>(world->size() * (world->size() + 1) / 2);
    EXPECT_EQ(to_host<float>(*backend, a), std::vector<float>(1003, total));
    EXPECT_EQ(to_host<float>(*backend, b), std::vector<float>(1003, total));
  }
}

// Several pieces for every peer, uneven chunks, and the staging given back.
TEST(Mpi, LongTensorsGoInPieces) {
  const int64_t count = int64_t{5} * 1024 * 1024 + 3;
  const Tensor data = zeros(*backend, DType::F32, {count});
  backend->fill(data, world->rank() + 0.5);
  const int64_t live = backend->allocator().live_bytes();
  backend->allocator().reset_peak();
  world->all_reduce(data, Reduce::Sum, backend->comm_stream()).wait();
  const int n = world->size();
  const auto total = static_cast<float>(n * n / 2.0);
  const std::vector<float> values = to_host<float>(*backend, data);
  EXPECT_EQ(std::count(values.begin(), values.end(), total), count);
  EXPECT_EQ(backend->allocator().live_bytes(), live);
  EXPECT_LE(backend->allocator().peak_bytes() - live, (n - 1) * (int64_t{8} << 20));
}

TEST(Mpi, ACollectiveFinishesWhileItsCallersWork) {
  const Tensor data = zeros(*backend, DType::F32, {3});
  Work work = world->all_reduce(data, Reduce::Sum, backend->comm_stream());
  while (!work.done()) std::this_thread::sleep_for(1ms);
  work.wait();
}

TEST(Mpi, AnExchangeNeedsOnlyItsTwoRanks) {
  const Tensor data = zeros(*backend, DType::F32, {3});
  const int last = world->size() - 1;
  if (last > 0 && (world->rank() == 0 || world->rank() == last)) {
    const bool sends = world->rank() == last;
    if (sends) backend->fill(data, 7);
    const PeerOp operation{sends ? PeerOp::Kind::Send : PeerOp::Kind::Receive, sends ? 0 : last, data};
    world->exchange({&operation, 1}, backend->comm_stream()).wait();
    EXPECT_EQ(to_host<float>(*backend, data), std::vector<float>(3, 7));
  }
  world->barrier();
}

// Report: reductions above INT_MAX left part of the data unreduced. 2^31 + 3 bytes and more.
TEST(MpiLarge, BytesBeyond31BitsArrive) {
  const int64_t count = (int64_t{1} << 31) + 3;
  const Tensor words = zeros(*backend, DType::F32, {count / 4 + 1});
  const Tensor data(words.storage(), DType::U8, {count});
  // The places where a narrowed size, a piece or a signed offset would go wrong.
  const int64_t marks[] = {
      0, (int64_t{1} << 22) - 1, int64_t{1} << 30, (int64_t{1} << 31) - 1, int64_t{1} << 31, count - 1};
  if (world->rank() == 0)
    for (const int64_t mark : marks) backend->fill(data.narrow(mark, 1), 7);
  world->broadcast(data, 0, backend->comm_stream()).wait();
  for (const int64_t mark : marks) EXPECT_EQ(to_host<uint8_t>(*backend, data.narrow(mark, 1))[0], 7) << mark;
  EXPECT_EQ(to_host<uint8_t>(*backend, data.narrow(count - 2, 1))[0], 0);
}

TEST(MpiLarge, SumsBeyond31BitsAreComplete) {
  const int64_t count = (int64_t{1} << 29) + 1;  // of fp32: 2^31 + 4 bytes
  const Tensor data = zeros(*backend, DType::F32, {count});
  backend->fill(data, world->rank() + 1);
  world->traffic().reset();
  world->all_reduce(data, Reduce::Sum, backend->comm_stream()).wait();
  const Tensor squares = zeros(*backend, DType::F64, {1});
  backend->sum_squares(data, squares);
  const int n = world->size();
  const double total = n * (n + 1) / 2;
  EXPECT_EQ(to_host<double>(*backend, squares)[0], total * total * static_cast<double>(count));
  std::vector<int64_t> sent{world->traffic().sent(TrafficKind::AllReduce)};
  world->all_reduce_host(std::span<int64_t>(sent), Reduce::Sum);
  EXPECT_EQ(sent[0], 2 * (n - 1) * count * 4);
}

// Rank 0 reports all, the others only what failed.
class FailurePrinter : public testing::EmptyTestEventListener {
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (result.failed())
      std::fprintf(stderr, "rank %d: %s:%d: %s\n", world->rank(), result.file_name(), result.line_number(),
                   result.message());
  }
};

// One way to fail; rank 1 is the one at fault. Never returns normally.
void fail_by(const std::string& way) {
  const Tensor data = zeros(*backend, DType::F32, {1003});
  Stream& stream = backend->comm_stream();
  world->barrier();
  const bool at_fault = world->rank() == 1;
  if (at_fault && way == "abort") fail(ExitCode::Data, "the disk is on fire");
  if (at_fault && way == "stuck") std::this_thread::sleep_for(1h);
  if (at_fault && way == "killed") std::raise(SIGKILL);
  if (at_fault && way == "exit") std::_Exit(1);
  if (at_fault && way == "mismatch") world->broadcast(data, 0, stream).wait();
  if (at_fault && way == "outstanding") {
    const Work forgotten = world->all_gather(data, zeros(*backend, DType::F32, {2 * 1003}), stream);
    fail(ExitCode::Data, "left in the middle");
  }
  world->all_reduce(data, Reduce::Sum, stream).wait();
  std::this_thread::sleep_for(way == "outstanding" ? 0s : 1h);
}

}  // namespace
}  // namespace tessera::test

int main(int argc, char** argv) {
  using namespace tessera;
  testing::InitGoogleTest(&argc, argv);
  const std::string way = argc > 1 ? argv[1] : "";
  const bool fails = !way.empty() && way != "large";
  const auto backend = make_cpu_backend(1);
  auto owner = make_mpi_world(*backend, fails ? 2 : 300);
  Communicator* const world = owner.get();
  test::world = world;
  test::backend = backend.get();
  if (world->rank() != 0) {
    auto& listeners = testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new test::FailurePrinter);
  }
  try {
    if (way == "unwinding") {
      const auto copy = world->split(0, 0, "copy");
      if (world->rank() == 1) throw Error(ExitCode::Data, "nobody catches this in time");
      copy->barrier();
    }
    if (way == "uncaught") {
      const auto dying = std::move(owner);
      dying->barrier();
      if (dying->rank() == 1) throw Error(ExitCode::Data, "leaves the world");
      dying->barrier();
    }
    if (fails) test::fail_by(way);
  } catch (const std::exception& error) {
    world->abort(error.what());
  }
  testing::GTEST_FLAG(filter) = way == "large" ? "MpiLarge.*" : "Mpi.*";
  const int result = RUN_ALL_TESTS();
  int64_t failed = result;
  world->all_reduce_host(std::span<int64_t>(&failed, 1), Reduce::Max);
  return static_cast<int>(failed);
}
