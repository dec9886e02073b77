// SPDX-License-Identifier: Apache-2.0
// The transport over messages, on a network of threads: the same as over MPI, with random delivery, under
// the sanitizers, and with a backend whose memory only the backend can touch.
#include "framework/comm/mpi/message_transport.h"

#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "framework/base/check.h"
#include "framework/comm/pieces.h"
#include "framework/ops/memory.h"
#include "tests/support/collective_cases.h"
#include "tests/support/loopback.h"
#include "tests/support/protected_backend.h"
#include "tests/support/thread_ranks.h"

namespace tessera::test {
namespace {

using namespace std::chrono_literals;
using Body = std::function<void(Communicator&, Backend&, int)>;

// A failure of a rank ends the process, as with MPI.
void run_message_ranks(
    int ranks, const Body& body, const Patience& patience = 60,
    const std::function<std::unique_ptr<Backend>(int)>& make_backend =
        [](int) { return make_cpu_backend(1); },
    const std::vector<int>& nodes = {}) {
  LoopbackNetwork network(ranks, 7, 32767, nodes);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      const auto backend = make_backend(rank);
      const auto world = messages::make_message_world(network.layer(rank), *backend, patience);
      try {
        body(*world, *backend, rank);
      } catch (const std::exception& error) {
        world->abort(error.what());
      }
    });
  for (std::thread& thread : threads) thread.join();
}

class MessageRanks : public ::testing::TestWithParam<int> {};

TEST_P(MessageRanks, CollectivesHaveTheBitsOfThreadRanks) {
  std::vector<std::string> of_threads(static_cast<size_t>(GetParam()));
  run_ranks(GetParam(), [&](Communicator& world, Backend& backend, int rank) {
    of_threads[static_cast<size_t>(rank)] = run_collective_cases(world, backend);
  });
  run_message_ranks(GetParam(), [&](Communicator& world, Backend& backend, int rank) {
    EXPECT_TRUE(run_collective_cases(world, backend) == of_threads[static_cast<size_t>(rank)]);
  });
}
INSTANTIATE_TEST_SUITE_P(Ranks, MessageRanks, ::testing::Values(1, 2, 3, 4));

class MessageAlgorithms : public ::testing::TestWithParam<int> {};

TEST_P(MessageAlgorithms, HaveTheBitsOfThreadRanks) {
  std::vector<std::string> of_threads(static_cast<size_t>(GetParam()));
  run_ranks(GetParam(), [&](Communicator& world, Backend& backend, int rank) {
    of_threads[static_cast<size_t>(rank)] = run_all_reduce_cases(world, backend);
  });
  run_message_ranks(GetParam(), [&](Communicator& world, Backend& backend, int rank) {
    EXPECT_TRUE(run_all_reduce_cases(world, backend) == of_threads[static_cast<size_t>(rank)]);
  });
}
INSTANTIATE_TEST_SUITE_P(Ranks, MessageAlgorithms, ::testing::Values(2, 3, 5, 7, 8));  // MPI ranks: 1 to 4

// What each algorithm makes of values that are added in another order on another mesh of nodes, for tensors
// of many pieces, in groups of some of the ranks.
std::string sums_over_nodes(Communicator& world, Backend& backend) {
  std::string bytes;
  const auto most = world.split(world.rank() == 1, -world.rank(), "most");
  for (Communicator* group : {&world, most.get()})
    for (const AllReduceAlgorithm algorithm :
         {AllReduceAlgorithm::Auto, AllReduceAlgorithm::Ring, AllReduceAlgorithm::Tree,
          AllReduceAlgorithm::Hierarchical, AllReduceAlgorithm::ParameterServer}) {
      group->use_all_reduce(algorithm);
      for (const int64_t count : {int64_t{5}, 3 * (kPiecesOnANode.largest / 2) + 3}) {
        if (count > 5 && group->size() != 4) continue;
        std::vector<double> values(static_cast<size_t>(count));
        for (size_t i = 0; i < values.size(); ++i)
          values[i] = 1.0 / static_cast<double>(1 + (i * 7 + static_cast<size_t>(world.rank()) * 11) % 101);
        const Tensor data = from_bytes(backend, DType::BF16, {count}, encoded(DType::BF16, values));
        group->all_reduce(data, Reduce::Sum, backend.comm_stream()).wait();
        bytes += to_bytes(backend, data);
      }
    }
  return bytes;
}

TEST(Messages, SeveralNodesHaveTheBitsOfThreadRanks) {
  for (const std::vector<int>& nodes : {std::vector<int>{0, 0, 1, 1}, {0, 1, 1, 0, 2}}) {
    const int ranks = static_cast<int>(nodes.size());
    std::vector<std::string> of_threads(nodes.size());
    run_ranks(ranks,
              [&](Communicator& world, Backend& backend, int rank) {
                of_threads[static_cast<size_t>(rank)] = sums_over_nodes(world, backend);
              },
              {.patience = 60, .nodes = nodes});
    run_message_ranks(
        ranks,
        [&](Communicator& world, Backend& backend, int rank) {
          EXPECT_TRUE(sums_over_nodes(world, backend) == of_threads[static_cast<size_t>(rank)]);
        },
        60, [](int) { return make_cpu_backend(1); }, nodes);
  }
}

TEST(Messages, NeverTouchTensorMemoryOfABackendThatIsNotHostAddressable) {
  const auto memory = std::make_shared<ProtectedMemory>();
  run_message_ranks(
      3, [](Communicator& world, Backend& backend, int) { run_collective_cases(world, backend); }, 60,
      [&](int) { return make_protected_backend(1, memory); });
}

// More pieces than the window, of a size that does not divide.
TEST(Messages, LongTensorsGoInPieces) {
  run_message_ranks(2, [](Communicator& world, Backend& backend, int rank) {
    const int64_t count = 2 * 7 * 1024 * 1024 + 1;  // chunks of 7 pieces, or 28 MiB
    const Tensor data = zeros(backend, DType::F32, {count});
    backend.fill(data, rank + 1);
    const int64_t live = backend.allocator().live_bytes();
    backend.allocator().reset_peak();
    world.all_reduce(data, Reduce::Sum, backend.comm_stream()).wait();
    const Tensor total = zeros(backend, DType::F64, {1});
    backend.sum_squares(data, total);
    EXPECT_EQ(to_host<double>(backend, total)[0], 9.0 * static_cast<double>(count));
    EXPECT_EQ(backend.allocator().peak_bytes() - live, kPiecesOnANode.under_way * kPiecesOnANode.largest);
    world.broadcast(data, 1, backend.comm_stream()).wait();
  });
}

TEST(Messages, ExchangesBesideCollectivesKeepTheirOrder) {
  run_message_ranks(3, [](Communicator& world, Backend& backend, int rank) {
    Stream& stream = backend.comm_stream();
    const int next = (rank + 1) % 3, before = (rank + 2) % 3;
    std::vector<Tensor> sent, received;
    std::vector<Work> works;
    const Tensor data = zeros(backend, DType::F32, {1003});
    for (int i = 0; i < 10; ++i) {
      sent.push_back(zeros(backend, DType::F32, {100}));
      backend.fill(sent.back(), 10 * rank + i);
      received.push_back(zeros(backend, DType::F32, {100}));
      const PeerOp send{PeerOp::Kind::Send, next, sent.back()};
      const PeerOp receive{PeerOp::Kind::Receive, before, received.back()};
      works.push_back(world.exchange({&send, 1}, stream));
      works.push_back(world.all_reduce(data, Reduce::Max, stream));
      works.push_back(world.exchange({&receive, 1}, stream));
    }
    for (Work& work : works) work.wait();
    for (int i = 0; i < 10; ++i)
      EXPECT_EQ(to_host<float>(backend, received[static_cast<size_t>(i)])[99],
                static_cast<float>(10 * before + i));
  });
}

TEST(Messages, SizesThatOneMessageCannotCarryAreRefused) {
  EXPECT_EQ(messages::checked_count(messages::kLargestMessage), (1 << 30) - 1);
  EXPECT_THROW(messages::checked_count(int64_t{1} << 30), Error);
  EXPECT_THROW(messages::checked_count((int64_t{1} << 32) + 5), Error);
  EXPECT_THROW(messages::checked_count(-1), Error);
}

TEST(Messages, PiecesCoverTheTensorAndStagingIsBounded) {
  for (const int ranks : {2, 3, 7, 64, 1000})
    for (const auto& [dtype, sizes] : {std::pair{DType::F64, kPiecesOnANode},
                                       {DType::BF16, kPiecesBetweenNodes},
                                       {DType::U8, kPiecesOnANode}}) {
      const int64_t each = pieces_of(1 << 30, dtype, ranks - 1, sizes).each;
      EXPECT_LE(each * size_of(dtype), sizes.largest);
      if (ranks <= 512) {
        EXPECT_LE(each * size_of(dtype) * sizes.under_way * (ranks - 1), kStagingLimit);
      }
      const Pieces pieces{int64_t{3} * each + 1, each};
      EXPECT_EQ(pieces.count(), 4);
      EXPECT_EQ(pieces.range(3), (Range{3 * each, 3 * each + 1}));
    }
  EXPECT_EQ((Pieces{0, 5}).count(), 0);
}

TEST(Messages, RunOutOfTagsWithAMessage) {
  LoopbackNetwork network(1, 7, 64 * 10);
  const auto backend = make_cpu_backend(1);
  const auto world = messages::make_message_world(network.layer(0), *backend, 60);
  for (int i = 1; i < 10; ++i) (void)world->split(0, 0, "one more");
  try {
    (void)world->split(0, 0, "too many");
    FAIL() << "no end of tags";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("the tags of this MPI reach for 10 groups"), std::string::npos)
        << error.what();
  }
}

void expect_end(const Body& body, const Patience& patience, const std::string& text) {
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(run_message_ranks(2, body, patience), ::testing::ExitedWithCode(5), text);
}

TEST(MessagesDeathTest, DifferentCallsNameBothRanksAndBothCalls) {
  expect_end(
      [](Communicator& world, Backend& backend, int rank) {
        const Tensor data = zeros(backend, DType::F32, {5 + rank});
        world.barrier();
        world.all_reduce(data, Reduce::Sum, backend.comm_stream()).wait();
      },
      60,
      "call #1 on 'world' differs between ranks: rank . makes all_reduce.*fp32.[56].*, rank . makes "
      "all_reduce.*fp32.[56]");
}

TEST(MessagesDeathTest, DifferentMessagesAreFound) {
  expect_end(
      [](Communicator& world, Backend& backend, int rank) {
        const Tensor data = zeros(backend, rank == 0 ? DType::F32 : DType::BF16, {5});
        const PeerOp half{rank == 0 ? PeerOp::Kind::Send : PeerOp::Kind::Receive, 1 - rank, data};
        world.exchange({&half, 1}, backend.comm_stream()).wait();
        world.barrier();
      },
      60, "messages on 'world' differ: rank 0 sends fp32.5.*rank 1 makes exchange.bf16.5");
}

TEST(MessagesDeathTest, DifferentRowCountsAreFound) {
  expect_end(
      [](Communicator& world, Backend& backend, int) {
        const Tensor send = zeros(backend, DType::F32, {3, 2}), receive = zeros(backend, DType::F32, {4, 2});
        const std::vector<int64_t> sends{1, 2}, receives{2, 2};
        world.all_to_all(send, sends, receive, receives, backend.comm_stream()).wait();
      },
      60, "which expects|and expects");
}

TEST(MessagesDeathTest, ATimeLimitNamesTheCallAndWhoIsMissing) {
  expect_end(
      [](Communicator& world, Backend& backend, int rank) {
        if (rank == 1) std::this_thread::sleep_for(1h);
        const Tensor data = zeros(backend, DType::F32, {5});
        world.all_reduce(data, Reduce::Sum, backend.comm_stream()).wait();
      },
      0.2, "error: rank 0: rank 0 waited 0.2 s for all_reduce.*#0 on 'world': rank 1 has not arrived");
}

TEST(MessagesDeathTest, AWaitIsShortOnceAStopWasAskedFor) {
  const auto stop = std::make_shared<std::atomic<bool>>(false);
  expect_end(
      [stop](Communicator& world, Backend&, int rank) {
        world.barrier();
        *stop = true;
        if (rank == 1) std::this_thread::sleep_for(1h);
        world.barrier();
      },
      {600, [stop] { return stop->load(); }, 0.2},
      "rank 0 waited 0.2 s after the signal to stop for barrier #1 on 'world': rank 1 has not arrived");
}

TEST(MessagesDeathTest, LeavingWithWorkUnderWayEndsTheProcess) {
  expect_end(
      [](Communicator& world, Backend& backend, int rank) {
        const auto copy = world.split(0, rank, "copy");
        const Tensor data = zeros(backend, DType::F32, {5});
        if (rank == 1) std::this_thread::sleep_for(1h);
        const Work forgotten = copy->all_reduce(data, Reduce::Sum, backend.comm_stream());
        fail(ExitCode::Data, "the first cause");
      },
      60, "error: rank 0: the first cause");
}

}  // namespace
}  // namespace tessera::test
