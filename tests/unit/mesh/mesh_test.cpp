// SPDX-License-Identifier: Apache-2.0
#include "framework/mesh/mesh.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "framework/base/check.h"

namespace tessera {
namespace {

std::string usage_error_of(const MeshSizes& sizes) {
  try {
    make_layout(sizes);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::Usage);
    return error.what();
  }
  return "";
}

TEST(Mesh, RanksVaryFastestAlongTheFirstAxis) {
  const Layout layout = make_layout({.tp = 2, .sp = 3, .dp = 2, .pp = 2});
  const Mesh& mesh = layout.dense;
  EXPECT_EQ(mesh.ranks(), 24);
  const int rank = 1 + 2 * (2 + 3 * (1 + 2 * 1));  // tp 1, sp 2, dp 1, pp 1
  EXPECT_EQ(mesh.coordinate(rank, Axis::Tensor), 1);
  EXPECT_EQ(mesh.coordinate(rank, Axis::Sequence), 2);
  EXPECT_EQ(mesh.coordinate(rank, Axis::Data), 1);
  EXPECT_EQ(mesh.coordinate(rank, Axis::Pipeline), 1);
  EXPECT_EQ(mesh.to_string(), "tp=2 sp=3 dp=2 pp=2");
}

TEST(Mesh, ExpertViewCutsTheSameRanksAgain) {
  const Layout layout = make_layout({.tp = 2, .sp = 2, .dp = 3, .pp = 2, .ep = 3, .etp = 2});
  EXPECT_EQ(layout.expert.to_string(), "etp=2 ep=3 edp=2 pp=2");
  EXPECT_EQ(layout.expert.ranks(), layout.dense.ranks());
  for (int rank = 0; rank < layout.dense.ranks(); ++rank) {
    EXPECT_EQ(layout.expert.coordinate(rank, Axis::ExpertTensor), rank % 2);
    EXPECT_EQ(layout.expert.coordinate(rank, Axis::Expert), rank / 2 % 3);
    EXPECT_EQ(layout.expert.coordinate(rank, Axis::ExpertData), rank / 6 % 2);
    EXPECT_EQ(layout.expert.coordinate(rank, Axis::Pipeline), layout.dense.coordinate(rank, Axis::Pipeline));
  }
}

TEST(Mesh, AnAxisTheMeshLacksHasSizeOne) {
  const Mesh mesh({{Axis::Data, 3}});
  EXPECT_EQ(mesh.size(Axis::Expert), 1);
  EXPECT_EQ(mesh.coordinate(2, Axis::Expert), 0);
  EXPECT_EQ(mesh.peers(2, {Axis::Expert}), std::vector<int>{2});
}

TEST(Mesh, PeersAreExactlyTheRanksThatDifferAlongTheAxesOnly) {
  std::mt19937 random(7);
  const std::vector<Axis> axes = {Axis::Tensor, Axis::Sequence, Axis::Data, Axis::Pipeline};
  const AxisSet sets[] = {{},
                          {Axis::Tensor},
                          {Axis::Sequence},
                          {Axis::Data},
                          {Axis::Pipeline},
                          {Axis::Data, Axis::Sequence},
                          {Axis::Tensor, Axis::Pipeline},
                          {Axis::Tensor, Axis::Data},
                          {Axis::Tensor, Axis::Sequence, Axis::Data},
                          {Axis::Tensor, Axis::Sequence, Axis::Data, Axis::Pipeline}};
  for (int trial = 0; trial < 200; ++trial) {
    const auto size = [&] { return static_cast<int>(random() % 4 + 1); };
    const Mesh mesh = make_layout({.tp = size(), .sp = size(), .dp = size(), .pp = size()}).dense;
    const AxisSet set = sets[random() % std::size(sets)];
    const int rank = static_cast<int>(random() % static_cast<unsigned>(mesh.ranks()));
    std::vector<int> expected;
    for (int other = 0; other < mesh.ranks(); ++other) {
      const bool peer = std::all_of(axes.begin(), axes.end(), [&](Axis axis) {
        return set.contains(axis) || mesh.coordinate(other, axis) == mesh.coordinate(rank, axis);
      });
      if (peer) expected.push_back(other);
    }
    EXPECT_EQ(mesh.peers(rank, set), expected) << mesh.to_string() << " rank " << rank;
    EXPECT_EQ(expected.at(static_cast<size_t>(mesh.place(rank, set))), rank) << mesh.to_string();
  }
}

TEST(Mesh, RefusesSizesBelowOneAndRepeatedAxes) {
  EXPECT_THROW(Mesh({{Axis::Data, 0}}), Error);
  EXPECT_THROW(Mesh({{Axis::Data, 2}, {Axis::Data, 2}}), Error);
  EXPECT_THROW(Mesh({{Axis::Data, 1 << 20}, {Axis::Tensor, 1 << 20}}), Error);
  const Mesh mesh({{Axis::Data, 2}});
  EXPECT_THROW((void)mesh.coordinate(2, Axis::Data), Error);
  EXPECT_THROW((void)mesh.peers(-1, {Axis::Data}), Error);
}

TEST(Mesh, LayoutErrorsNameTheKeysTheNumbersAndWhatWorks) {
  EXPECT_EQ(usage_error_of({.tp = 2, .dp = 2, .ep = 4}), "");
  const std::string cut = usage_error_of({.dp = 6, .ep = 4});
  EXPECT_NE(cut.find("parallel.etp * parallel.ep = 1 * 4 = 4"), std::string::npos) << cut;
  EXPECT_NE(cut.find("1 * 1 * 6 = 6"), std::string::npos) << cut;
  EXPECT_NE(cut.find("3 or 6"), std::string::npos) << cut;
  EXPECT_NE(usage_error_of({.dp = 2, .ep = 5}).find("a product of 2 does"), std::string::npos);
  EXPECT_NE(usage_error_of({.sp = 0}).find("parallel.sp = 0"), std::string::npos);
  EXPECT_NE(usage_error_of({.tp = 1 << 16, .dp = 1 << 16}).find("more than"), std::string::npos);
}

TEST(Axis, NamesAreDistinct) {
  std::set<std::string_view> names;
  for (const Axis axis : {Axis::Tensor, Axis::Sequence, Axis::Data, Axis::Pipeline, Axis::ExpertTensor,
                          Axis::Expert, Axis::ExpertData})
    names.insert(name_of(axis));
  EXPECT_EQ(names.size(), 7u);
}

}  // namespace
}  // namespace tessera
