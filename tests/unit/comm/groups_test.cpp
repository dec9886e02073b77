// SPDX-License-Identifier: Apache-2.0
#include "framework/comm/groups.h"

#include <gtest/gtest.h>

#include "framework/base/check.h"
#include "framework/comm/shape/shape_communicator.h"
#include "tests/support/thread_ranks.h"

namespace tessera::test {
namespace {

TEST(Groups, HoldThePeersOfEachRank) {
  const Layout layout = make_layout({.tp = 2, .sp = 1, .dp = 2, .pp = 2, .ep = 4});
  std::vector<AxisSet> sets = dense_axis_sets();
  sets.push_back({Axis::Expert});
  sets.push_back({Axis::ExpertData});
  run_ranks(8, [&](Communicator& world, int rank) {
    Groups groups(world, layout, sets);
    for (const AxisSet axes : sets) {
      Communicator& group = groups.along(axes);
      const bool expert = axes.contains(Axis::Expert) || axes.contains(Axis::ExpertData);
      const std::vector<int> peers = (expert ? layout.expert : layout.dense).peers(rank, axes);
      std::vector<std::string> found = group.all_gather_host(std::to_string(rank));
      std::vector<std::string> expected;
      for (const int peer : peers) expected.push_back(std::to_string(peer));
      EXPECT_EQ(found, expected) << group.name();
    }
    EXPECT_EQ(groups.along({Axis::Data}).name(), "dp");
    EXPECT_EQ(groups.along({Axis::Sequence}).name(), "self");
    EXPECT_EQ(groups.along({Axis::Data, Axis::Sequence, Axis::Tensor}).name(), "dp+tp");
    // The same groups are the same communicator, across the two views as well.
    EXPECT_EQ(&groups.along({Axis::Data}), &groups.along({Axis::Data, Axis::Sequence}));
    EXPECT_EQ(&groups.along({Axis::Expert}), &groups.along({Axis::Data, Axis::Sequence, Axis::Tensor}));
    EXPECT_EQ(&groups.along({Axis::ExpertData}), &groups.along({Axis::Sequence}));
    EXPECT_THROW(groups.along({Axis::ExpertTensor}), Error);
  });
}

TEST(Groups, RefuseAWorldOfAnotherSizeAndMixedViews) {
  const auto backend = make_cpu_backend(1);
  const auto world = make_shape_world(3, 0, *backend);
  EXPECT_THROW(Groups(*world, make_layout({.dp = 4}), dense_axis_sets()), Error);
  const AxisSet mixed[] = {{Axis::Data, Axis::Expert}};
  EXPECT_THROW(Groups(*world, make_layout({.dp = 3}), mixed), Error);
}

TEST(Groups, OfAnImaginedWorldHaveTheRightSizes) {
  const auto backend = make_cpu_backend(1);
  const Layout layout = make_layout({.tp = 8, .dp = 16, .pp = 4});
  const int rank = 5 + 8 * (3 + 16 * 2);  // tp 5, dp 3, pp 2
  const auto world = make_shape_world(512, rank, *backend);
  Groups groups(*world, layout, dense_axis_sets());
  EXPECT_EQ(groups.along({Axis::Tensor}).size(), 8);
  EXPECT_EQ(groups.along({Axis::Tensor}).rank(), 5);
  EXPECT_EQ(groups.along({Axis::Data}).size(), 16);
  EXPECT_EQ(groups.along({Axis::Data}).rank(), 3);
  EXPECT_EQ(groups.along({Axis::Pipeline}).size(), 4);
  EXPECT_EQ(groups.along({Axis::Pipeline}).rank(), 2);
}

}  // namespace
}  // namespace tessera::test
