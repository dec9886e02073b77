// SPDX-License-Identifier: Apache-2.0
#include "framework/comm/in_process/in_process.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <random>
#include <thread>

#include "framework/base/check.h"
#include "framework/ops/memory.h"
#include "tests/support/collective_cases.h"
#include "tests/support/protected_backend.h"
#include "tests/support/thread_ranks.h"

namespace tessera::test {
namespace {

using namespace std::chrono_literals;

// Runs ranks of which at least one fails, and returns what each of them was told.
std::map<int, std::string> failures_of(int ranks, const Patience& patience,
                                       const std::function<void(Communicator&, Backend&, int)>& body) {
  std::mutex mutex;
  std::map<int, std::string> messages;
  try {
    run_ranks(ranks,
              [&](Communicator& world, Backend& backend, int rank) {
                try {
                  body(world, backend, rank);
                } catch (const Error& error) {
                  EXPECT_EQ(error.code(), ExitCode::Communication);
                  const std::lock_guard lock(mutex);
                  messages[rank] = error.what();
                  throw;
                }
              },
              {.patience = patience});
  } catch (const Error&) {
  }
  return messages;
}

void expect_all_told(const std::map<int, std::string>& messages, int ranks, const std::string& text) {
  EXPECT_EQ(messages.size(), static_cast<size_t>(ranks));
  for (const auto& [rank, message] : messages)
    EXPECT_NE(message.find(text), std::string::npos) << "rank " << rank << " was told: " << message;
}

class InProcess : public ::testing::TestWithParam<int> {};

TEST_P(InProcess, CollectivesGiveTheSumsOfTheHost) {
  run_ranks(GetParam(), [](Communicator& world, Backend& backend, int rank) {
    EXPECT_EQ(world.rank(), rank);
    EXPECT_EQ(world.name(), "world");
    run_collective_cases(world, backend);
  });
}

TEST_P(InProcess, DelaysChangeNothing) {
  run_ranks(GetParam(), [](Communicator& world, Backend& backend, int rank) {
    std::mt19937 random(static_cast<unsigned>(rank));
    for (int round = 0; round < 20; ++round) {
      const Tensor data = zeros(backend, DType::F32, {1003});
      backend.fill(data, rank + 1);
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 2000));
      Work work = world.all_reduce(data, Reduce::Sum, backend.comm_stream());
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 2000));
      work.wait();
      const auto total = static_cast<float>(world.size() * (world.size() + 1) / 2);
      EXPECT_EQ(to_host<float>(backend, data), std::vector<float>(1003, total));
    }
  });
}
INSTANTIATE_TEST_SUITE_P(Ranks, InProcess, ::testing::Values(1, 2, 3, 4, 7));

TEST(InProcessMemory, IsTouchedByTheBackendsOnly) {
  const auto memory = std::make_shared<ProtectedMemory>();
  run_ranks_on(
      3, [&](int) { return make_protected_backend(1, memory); },
      [](Communicator& world, Backend& backend, int) { run_collective_cases(world, backend); });
}

TEST(InProcessOverlap, ACollectiveFinishesWhileItsCallersWork) {
  run_ranks(2, [](Communicator& world, Backend& backend, int) {
    const Tensor data = zeros(backend, DType::F32, {3});
    Work work = world.all_reduce(data, Reduce::Sum, backend.comm_stream());
    // Nobody waits: only the progress thread can finish it.
    while (!work.done()) std::this_thread::sleep_for(1ms);
    work.wait();
  });
}

TEST(InProcessOverlap, CommunicatorsDoNotWaitForEachOther) {
  run_ranks(2, [](Communicator& world, Backend& backend, int rank) {
    const auto other = world.split(0, rank, "other");
    const Tensor a = zeros(backend, DType::F32, {3}), b = zeros(backend, DType::F32, {3});
    Communicator& first = rank == 0 ? world : *other;
    Communicator& second = rank == 0 ? *other : world;
    // The two ranks make the calls in different orders.
    Work one = first.all_reduce(a, Reduce::Sum, backend.comm_stream());
    Work two = second.all_reduce(b, Reduce::Sum, backend.comm_stream());
    two.wait();
    one.wait();
  });
}

TEST(InProcessOverlap, AnExchangeNeedsOnlyItsTwoRanks) {
  run_ranks(3, [](Communicator& world, Backend& backend, int rank) {
    const Tensor data = zeros(backend, DType::F32, {3});
    if (rank == 2) backend.fill(data, 7);
    if (rank != 0) {
      const PeerOp operation{rank == 2 ? PeerOp::Kind::Send : PeerOp::Kind::Receive, 3 - rank, data};
      world.exchange({&operation, 1}, backend.comm_stream()).wait();
      EXPECT_EQ(to_host<float>(backend, data), std::vector<float>(3, 7));
    }
    world.barrier();
  });
}

TEST(InProcessOverlap, TensorsAreReleasedWhenTheWaitReturns) {
  run_ranks(2, [](Communicator& world, Backend& backend, int) {
    const int64_t before = backend.allocator().live_bytes();
    Tensor data = zeros(backend, DType::F32, {1003});
    Work work = world.all_reduce(data, Reduce::Sum, backend.comm_stream());
    data = {};  // the work keeps it alive
    work.wait();
    EXPECT_EQ(backend.allocator().live_bytes(), before);
  });
}

TEST(InProcessFailure, DifferentCallsNameBothRanksAndBothCalls) {
  const auto told = failures_of(3, 60, [](Communicator& world, Backend& backend, int rank) {
    const Tensor data = zeros(backend, DType::F32, {6});
    world.barrier();
    if (rank == 1)
      world.broadcast(data, 0, backend.comm_stream()).wait();
    else
      world.all_reduce(data, Reduce::Sum, backend.comm_stream()).wait();
  });
  for (const char* text : {"call #1 on 'world'", "rank 1 makes broadcast(fp32[6] from rank 0)",
                           "makes all_reduce(sum, fp32[6])"})
    expect_all_told(told, 3, text);
}

TEST(InProcessFailure, DifferentShapesTypesAndOperationsAreFound) {
  const auto differs = [](auto&& tensor_of) {
    return failures_of(2, 60, [&](Communicator& world, Backend& backend, int rank) {
      const auto [data, op] = tensor_of(backend, rank);
      world.all_reduce(data, op, backend.comm_stream()).wait();
    });
  };
  expect_all_told(differs([](Backend& backend, int rank) {
                    return std::pair(zeros(backend, DType::F32, {6 + rank}), Reduce::Sum);
                  }),
                  2, "all_reduce(sum, fp32[7])");
  expect_all_told(differs([](Backend& backend, int rank) {
                    return std::pair(zeros(backend, rank == 0 ? DType::F32 : DType::BF16, {6}), Reduce::Sum);
                  }),
                  2, "all_reduce(sum, bf16[6])");
  expect_all_told(differs([](Backend& backend, int rank) {
                    return std::pair(zeros(backend, DType::F32, {6}), rank == 0 ? Reduce::Sum : Reduce::Max);
                  }),
                  2, "all_reduce(max, fp32[6])");
}

TEST(InProcessFailure, MessagesAndRowCountsThatDoNotFitAreFound) {
  expect_all_told(
      failures_of(
          2, 60,
          [](Communicator& world, Backend& backend, int rank) {
            const Tensor data = zeros(backend, DType::F32, {3 + rank});
            const PeerOp operation{rank == 0 ? PeerOp::Kind::Send : PeerOp::Kind::Receive, 1 - rank, data};
            world.exchange({&operation, 1}, backend.comm_stream()).wait();
          }),
      2, "rank 1 makes exchange(fp32[4] from rank 0)");
  expect_all_told(failures_of(2, 60,
                              [](Communicator& world, Backend& backend, int) {
                                const Tensor send = zeros(backend, DType::F32, {3, 2});
                                const Tensor receive = zeros(backend, DType::F32, {4, 2});
                                world
                                    .all_to_all(send, std::vector<int64_t>{1, 2}, receive,
                                                std::vector<int64_t>{1, 3}, backend.comm_stream())
                                    .wait();
                              }),
                  2, "expects 6");
}

TEST(InProcessFailure, AbortWakesEverybodyWithTheFirstCause) {
  std::atomic<int> waiting{0};
  const auto told = failures_of(4, 60, [&](Communicator& world, Backend& backend, int rank) {
    const auto half = world.split(rank % 2, rank, "half");
    if (rank == 3) {
      while (waiting < 3) std::this_thread::sleep_for(1ms);
      world.abort("the disk is on fire");
      world.abort("a later cause");
      world.barrier();
    }
    ++waiting;
    if (rank == 0) world.barrier();
    if (rank == 1) half->barrier();
    if (rank == 2) {
      const Tensor data = zeros(backend, DType::F32, {3});
      Work work = half->all_reduce(data, Reduce::Sum, backend.comm_stream());
      work.wait();
    }
  });
  expect_all_told(told, 4, "rank 3: the disk is on fire");
}

TEST(InProcessFailure, TheFirstExceptionIsTheOneThrown) {
  try {
    run_ranks(3, [](Communicator& world, int rank) {
      const auto dp = world.split(0, rank, "dp");
      if (rank == 1) fail(ExitCode::Data, "file {} is damaged", 7);
      dp->barrier();
    });
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::Data);
    EXPECT_STREQ(error.what(), "rank 1: file 7 is damaged");
  }
}

TEST(InProcessFailure, ACallAfterARankLeftInAnExceptionWaitsForTheCause) {
  std::atomic<bool> has_left{false}, has_thrown{false};
  // Destroyed after the rank's group: the time between leaving it and saying why.
  struct Unwinding {
    std::atomic<bool>&has_left, &has_thrown;
    ~Unwinding() {
      has_left = true;
      for (int i = 0; i < 200 && !has_thrown; ++i) std::this_thread::sleep_for(1ms);
    }
  };
  try {
    run_ranks(2, [&](Communicator& world, int rank) {
      const std::unique_ptr<Unwinding> unwinding(rank == 1 ? new Unwinding{has_left, has_thrown} : nullptr);
      const auto dp = world.split(0, rank, "dp");
      if (rank == 1) fail(ExitCode::Data, "file {} is damaged", 7);
      while (!has_left) std::this_thread::yield();
      try {
        dp->barrier();
      } catch (...) {
        has_thrown = true;
        std::this_thread::sleep_for(1ms);
        throw;
      }
    });
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "rank 1: file 7 is damaged");
  }
}

TEST(InProcessFailure, ATimeLimitNamesTheCallAndWhoIsMissing) {
  std::atomic<bool> failed{false};
  const auto told = failures_of(3, 0.1, [&](Communicator& world, Backend& backend, int rank) {
    world.barrier();
    if (rank == 0) {
      const Tensor data = zeros(backend, DType::BF16, {5});
      try {
        world.all_reduce(data, Reduce::Sum, backend.comm_stream()).wait();
      } catch (const Error&) {
        failed = true;
        throw;
      }
    }
    while (!failed) std::this_thread::sleep_for(1ms);  // stuck, outside of any call
    world.barrier();
  });
  expect_all_told(told, 3,
                  "rank 0 waited 0.1 s for all_reduce(sum, bf16[5]) #1 on 'world': rank 1, rank 2 have "
                  "not arrived");
}

TEST(InProcessFailure, LeavingWhileOthersWaitIsReportedAtOnce) {
  const auto told = failures_of(2, 60, [](Communicator& world, Backend&, int rank) {
    if (rank == 0) world.barrier();
  });
  ASSERT_EQ(told.size(), 1u);
  EXPECT_NE(told.at(0).find("barrier #0 on 'world': rank 1 has not arrived"), std::string::npos)
      << told.at(0);
}

TEST(InProcessFailure, AWaitIsShortOnceAStopWasAskedFor) {
  std::atomic<bool> stop{false}, told_off{false};
  const auto told =
      failures_of(2, {600, [&] { return stop.load(); }, 0.05}, [&](Communicator& world, Backend&, int rank) {
        world.barrier();
        if (rank == 1) {
          stop = true;  // in the middle of the other's wait
          while (!told_off) std::this_thread::sleep_for(1ms);
        }
        try {
          world.barrier();
        } catch (...) {
          told_off = true;
          throw;
        }
      });
  expect_all_told(told, 2,
                  "rank 0 waited 0.05 s after the signal to stop for barrier #1 on 'world': rank 1 has");
}

TEST(InProcess, AWaitIsLongAgainOnceTheStopIsAgreed) {
  std::atomic<bool> hurry{true};
  std::atomic<int> looks{0};
  const auto hurried = [&] {
    ++looks;
    return hurry.load();
  };
  run_ranks(2,
            [&](Communicator& world, Backend&, int rank) {
              if (rank == 1) {
                while (looks == 0) std::this_thread::sleep_for(1ms);  // rank 0 waits
                hurry = false;
                const int seen = looks;
                while (looks < seen + 3) std::this_thread::sleep_for(1ms);  // longer than the short patience
              }
              world.barrier();
            },
            {.patience = {600, hurried, 0.15}});
}

TEST(InProcessFailure, ArgumentsAreChecked) {
  run_ranks(2, [](Communicator& world, Backend& backend, int) {
    Stream& stream = backend.comm_stream();
    const Tensor wide = zeros(backend, DType::F32, {4, 6});
    EXPECT_THROW((void)world.all_reduce(wide.columns(0, 3), Reduce::Sum, stream), Error);
    EXPECT_THROW((void)world.all_reduce({}, Reduce::Sum, stream), Error);
    EXPECT_THROW((void)world.all_gather(wide, wide, stream), Error);
    EXPECT_THROW((void)world.broadcast(wide, 2, stream), Error);
    EXPECT_THROW(
        (void)world.all_to_all(wide, std::vector<int64_t>{1, 2}, wide, std::vector<int64_t>{2, 2}, stream),
        Error);
    const PeerOp self{PeerOp::Kind::Send, world.rank(), wide};
    EXPECT_THROW((void)world.exchange({&self, 1}, stream), Error);
    EXPECT_THROW((void)world.subgroup(std::vector<int>{1 - world.rank()}, "without me"), Error);
    world.barrier();
  });
}

TEST(InProcessDeathTest, ARankThatNeverReturnsEndsTheProcess) {
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  std::atomic<bool> stuck{false};
  const auto body = [&](Communicator&, int rank) {
    if (rank == 0) {
      while (!stuck) std::this_thread::sleep_for(1ms);
      fail(ExitCode::Data, "bad file");
    }
    stuck = true;
    while (true) std::this_thread::sleep_for(1s);
  };
  EXPECT_EXIT(run_ranks(2, body, {.patience = 60, .grace_s = 0.05}), ::testing::ExitedWithCode(5),
              "rank 0: bad file.*\n.*rank 1 did not return");
}

}  // namespace
}  // namespace tessera::test
