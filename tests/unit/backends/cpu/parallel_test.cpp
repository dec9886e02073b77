// SPDX-License-Identifier: Apache-2.0
#include "framework/backends/cpu/parallel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

namespace tessera::cpu {
namespace {

using Pieces = std::vector<std::pair<int64_t, int64_t>>;

Pieces sorted_pieces(int threads, int64_t count, int64_t grain) {
  std::mutex mutex;
  Pieces pieces;
  parallel_for(threads, count, grain, [&](int64_t begin, int64_t end) {
    const std::lock_guard lock(mutex);
    pieces.emplace_back(begin, end);
  });
  std::sort(pieces.begin(), pieces.end());
  return pieces;
}

TEST(Parallel, CoversEveryElementOnceInPiecesOfWholeGrains) {
  for (const int64_t count : {0, 1, 3, 7, 8, 64, 1003})
    for (const int threads : {1, 2, 3, 7})
      for (const int64_t grain : {1, 8, 100}) {
        const Pieces pieces = sorted_pieces(threads, count, grain);
        EXPECT_LE(pieces.size(), static_cast<size_t>(threads));
        int64_t next = 0;
        for (const auto& [begin, end] : pieces) {
          EXPECT_EQ(begin, next);
          EXPECT_LT(begin, end);
          EXPECT_EQ(begin % grain, 0);
          next = end;
        }
        EXPECT_EQ(next, count);
      }
}

TEST(Parallel, CutsAtTheSamePlacesEveryTime) {
  const Pieces first = sorted_pieces(3, 1003, 8);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(sorted_pieces(3, 1003, 8), first);
}

TEST(Parallel, HandsOutEveryDynamicPieceOnce) {
  for (const int64_t count : {0, 1, 7, 1003}) {
    std::vector<std::atomic<int>> visits(static_cast<size_t>(count));
    parallel_for_dynamic(4, count, 10, [&](int64_t begin, int64_t end) {
      EXPECT_EQ(begin % 10, 0);
      for (int64_t i = begin; i < end; ++i) ++visits[static_cast<size_t>(i)];
    });
    for (const auto& visit : visits) EXPECT_EQ(visit, 1);
  }
}

TEST(Parallel, RunsEachThreadOfTheTeamOnce) {
  std::vector<std::atomic<int>> visits(5);
  run_team(5, [&](int thread) { ++visits[static_cast<size_t>(thread)]; });
  for (const auto& visit : visits) EXPECT_EQ(visit, 1);
}

TEST(Parallel, RunsATeamWithinATeamOnTheThreadThatAsked) {
  std::vector<std::atomic<int>> visits(12);
  run_team(3, [&](int outer) {
    const auto self = std::this_thread::get_id();
    run_team(4, [&](int inner) {
      EXPECT_EQ(std::this_thread::get_id(), self);
      ++visits[static_cast<size_t>(outer * 4 + inner)];
    });
  });
  for (const auto& visit : visits) EXPECT_EQ(visit, 1);
}

TEST(Parallel, GivesAnExceptionToTheCallerAfterTheOthersAreDone) {
  std::atomic<int> done = 0;
  EXPECT_THROW(run_team(4,
                        [&](int thread) {
                          if (thread == 0) throw std::runtime_error("piece 0");
                          ++done;
                        }),
               std::runtime_error);
  EXPECT_EQ(done, 3);
  // The next team works.
  EXPECT_EQ(sorted_pieces(4, 100, 1).size(), 4u);
}

TEST(Parallel, ServesSeveralRankThreadsAtOnce) {
  constexpr int kRanks = 4;
  std::vector<int64_t> sums(kRanks);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < kRanks; ++rank)
    ranks.emplace_back([&, rank] {
      for (int repeat = 0; repeat < 50; ++repeat) {
        std::atomic<int64_t> sum = 0;
        parallel_for(2, 1000, 1, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) sum += i + rank;
        });
        sums[static_cast<size_t>(rank)] += sum;
      }
    });
  for (auto& rank : ranks) rank.join();
  for (int rank = 0; rank < kRanks; ++rank)
    EXPECT_EQ(sums[static_cast<size_t>(rank)], 50 * (999 * 500 + 1000 * rank));
}

}  // namespace
}  // namespace tessera::cpu
