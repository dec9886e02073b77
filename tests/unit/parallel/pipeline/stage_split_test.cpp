// SPDX-License-Identifier: Apache-2.0
#include "framework/parallel/pipeline/stage_split.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <random>

#include "framework/base/check.h"
#include "framework/parallel/pipeline/pattern.h"

namespace tessera {
namespace {

std::vector<double> chain(int blocks, double embedding, double block, double head) {
  std::vector<double> costs(static_cast<size_t>(blocks) + 2, block);
  costs.front() = embedding;
  costs.back() = head;
  return costs;
}

std::string usage_error(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::Usage);
    return error.what();
  }
  return "";
}

TEST(StageSplit, EmbeddingAndHeadCount) {
  EXPECT_EQ(split_by_cost(chain(8, 0, 1, 0), straight_placement(4, 1)), (std::vector<int>{2, 2, 2, 2}));
  EXPECT_EQ(split_by_cost(chain(14, 1, 1, 1), straight_placement(4, 1)), (std::vector<int>{3, 4, 4, 3}));
  // A head as heavy as four blocks: beside two, its stage would be the slowest.
  EXPECT_EQ(split_by_cost(chain(10, 0, 1, 4), straight_placement(3, 1)).back(), 1);
}

TEST(StageSplit, OnAVTheFirstRankHasEmbeddingAndHead) {
  // 8 blocks and 4 more of work on 2 ranks: 6 each, so that the first rank's two stages hold 2 blocks.
  const auto split = split_by_cost(chain(8, 2, 1, 2), v_placement(2));
  EXPECT_EQ(split[0] + split[3], 2);
  EXPECT_EQ(split[1] + split[2], 6);
}

TEST(StageSplit, EveryLayerIsInExactlyOneStageInOrder) {
  for (int stages = 1; stages <= 16; ++stages)
    for (int chunks = 1; chunks <= 4; ++chunks)
      for (int blocks = 1; blocks <= 100; ++blocks) {
        const auto placement = straight_placement(stages, chunks);
        if (blocks < stages * chunks) {
          EXPECT_NE(usage_error([&] { split_by_cost(chain(blocks, 0.3, 1, 1.7), placement); }), "");
          continue;
        }
        const auto ranges = units_of_stages(split_by_cost(chain(blocks, 0.3, 1, 1.7), placement));
        ASSERT_EQ(ranges.size(), placement.size());
        int next = 0;
        for (const UnitRange& range : ranges) {
          ASSERT_EQ(range.first, next);
          ASSERT_GE(range.count, 1);
          next += range.count;
        }
        ASSERT_EQ(next, blocks + 2) << stages << " x " << chunks;
      }
}

double largest_load(const std::vector<double>& costs, const std::vector<int>& placement,
                    const std::vector<int>& split) {
  std::vector<double> loads(placement.size(), 0);
  const auto ranges = units_of_stages(split);
  for (size_t s = 0; s < ranges.size(); ++s)
    for (int unit = 0; unit < ranges[s].count; ++unit)
      loads[static_cast<size_t>(placement[s])] += costs[static_cast<size_t>(ranges[s].first + unit)];
  return *std::ranges::max_element(loads);
}

// All splits, by recursion.
void every_split(int blocks, size_t stages, std::vector<int>& split, const std::function<void()>& visit) {
  if (split.size() + 1 == stages) {
    split.push_back(blocks);
    visit();
    split.pop_back();
    return;
  }
  for (int here = 1; here <= blocks - static_cast<int>(stages - split.size() - 1); ++here) {
    split.push_back(here);
    every_split(blocks - here, stages, split, visit);
    split.pop_back();
  }
}

TEST(StageSplit, NoSplitHasALighterHeaviestRank) {
  std::mt19937 random(5);
  std::uniform_real_distribution<double> share(0, 4);
  for (int trial = 0; trial < 60; ++trial) {
    const std::vector<int> placement = trial % 2 ? v_placement(2) : straight_placement(2 + trial % 3, 1);
    const int blocks = static_cast<int>(placement.size()) + trial % 7;
    const auto costs = chain(blocks, share(random), 1, share(random));
    double best = 1e9;
    std::vector<int> split;
    every_split(blocks, placement.size(), split,
                [&] { best = std::min(best, largest_load(costs, placement, split)); });
    EXPECT_NEAR(largest_load(costs, placement, split_by_cost(costs, placement)), best, 1e-9) << trial;
  }
}

TEST(StageSplit, TextSaysTheBlocksOfEachStage) {
  EXPECT_EQ(split_from_text("3,2,2", 3, 7), (std::vector<int>{3, 2, 2}));
  EXPECT_EQ(split_from_text("0, 3*2, 1", 5, 7), (std::vector<int>{0, 2, 2, 2, 1}));
  EXPECT_NE(usage_error([] { split_from_text("3,2", 3, 7); }).find("puts 5 blocks on 2 stages"),
            std::string::npos);
  EXPECT_NE(usage_error([] { split_from_text("3,x,2", 3, 7); }).find("'x'"), std::string::npos);
  EXPECT_NE(usage_error([] { split_from_text("3,0,4", 3, 7); }).find("leaves stage 1 empty"),
            std::string::npos);
  for (const char* bad : {"", "7,", "-1,8,0", "3*", "9999999999*1", "3,2,3", "2.5,2.5,2", "1048577*1"})
    EXPECT_NE(usage_error([&] { split_from_text(bad, 3, 7); }), "") << bad;
}

}  // namespace
}  // namespace tessera
