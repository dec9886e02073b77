// SPDX-License-Identifier: Apache-2.0
#include "framework/mesh/shard_spec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>

#include "framework/base/check.h"

namespace tessera {
namespace {

// The flat indices of the elements of a box, in order.
std::vector<int64_t> flat_indices(const Shape& shape, const Box& box) {
  std::vector<int64_t> indices;
  for (int64_t i = 0; i < box.elements(); ++i) {
    int64_t left = i, flat = 0, stride = 1;
    for (int d = shape.rank() - 1; d >= 0; --d) {
      const auto dim = static_cast<size_t>(d);
      flat += (box.offset[dim] + left % box.extent[dim]) * stride;
      left /= box.extent[dim];
      stride *= shape[d];
    }
    indices.push_back(flat);
  }
  return indices;
}

Shape random_shape(std::mt19937& random, int64_t largest) {
  std::vector<int64_t> dims(random() % 5);
  for (int64_t& size : dims) size = static_cast<int64_t>(random() % static_cast<uint64_t>(largest + 1));
  return Shape(dims);
}

TEST(PartOf, IsOrderedDisjointCompleteAndEven) {
  for (int64_t count = 0; count <= 100; ++count)
    for (int64_t parts = 1; parts <= 16; ++parts)
      for (const int64_t multiple : {1, 2, 7, 64}) {
        const int64_t units = (count + multiple - 1) / multiple;
        int64_t end = 0;
        for (int64_t index = 0; index < parts; ++index) {
          const Range part = part_of(count, parts, index, multiple);
          ASSERT_EQ(part.begin, end) << count << " " << parts << " " << index << " " << multiple;
          ASSERT_GE(part.size(), 0);
          if (part.end != count) {
            ASSERT_EQ(part.end % multiple, 0);
          }
          const int64_t held = (part.size() + multiple - 1) / multiple;
          ASSERT_EQ(held, units / parts + (index < units % parts ? 1 : 0));
          end = part.end;
        }
        ASSERT_EQ(end, count);
      }
}

TEST(PartOf, WorksBeyond32Bits) {
  const int64_t count = (int64_t{1} << 40) + 3;
  EXPECT_EQ(part_of(count, 3, 2).end, count);
  EXPECT_EQ(part_of(count, 3, 0).end, part_of(count, 3, 1).begin);
}

TEST(PartOf, RefusesWhatHasNoMeaning) {
  EXPECT_THROW(part_of(4, 0, 0), Error);
  EXPECT_THROW(part_of(4, 2, 2), Error);
  EXPECT_THROW(part_of(-1, 2, 0), Error);
  EXPECT_THROW(part_of(4, 2, 0, 0), Error);
}

TEST(LocalBox, RanksOfTheSplitAxesCoverTheTensorOnce) {
  std::mt19937 random(11);
  const Axis axes[] = {Axis::Tensor, Axis::Sequence, Axis::Data, Axis::Pipeline};
  for (int trial = 0; trial < 300; ++trial) {
    const auto size = [&] { return static_cast<int>(random() % 4 + 1); };
    const Mesh mesh = make_layout({.tp = size(), .sp = size(), .dp = size(), .pp = size()}).dense;
    const Shape shape = random_shape(random, 7);
    ShardSpec spec;
    int64_t copies = mesh.ranks();
    for (const Axis axis : axes) {
      if (shape.rank() == 0 || random() % 2 == 0) continue;
      const int dim = static_cast<int>(random() % static_cast<unsigned>(shape.rank()));
      spec.splits.push_back({dim, axis, static_cast<int64_t>(random() % 3 + 1)});
      copies /= mesh.size(axis);
    }
    std::vector<int64_t> seen(static_cast<size_t>(shape.elements()), 0);
    for (int rank = 0; rank < mesh.ranks(); ++rank)
      for (const int64_t index : flat_indices(shape, local_box(shape, spec, mesh, rank)))
        ++seen[static_cast<size_t>(index)];
    for (const int64_t times : seen) ASSERT_EQ(times, copies) << shape.to_string() << " " << mesh.to_string();
  }
}

TEST(LocalBox, PartsLieInRankOrderOnMultiples) {
  const Mesh mesh = make_layout({.tp = 3, .dp = 2}).dense;
  const ShardSpec heads{.splits = {{.dim = 0, .axis = Axis::Tensor, .multiple = 16}}};
  // 5 heads of 16 over 3 ranks: 2, 2, 1, the same for both data ranks.
  for (int rank = 0; rank < 6; ++rank) {
    const Box box = local_box({80, 7}, heads, mesh, rank);
    const int64_t begin[] = {0, 32, 64}, extent[] = {32, 32, 16};
    EXPECT_EQ(box, (Box{{begin[rank % 3], 0}, {extent[rank % 3], 7}})) << rank;
  }
}

TEST(LocalBox, AnUnsplitTensorIsWholeEverywhere) {
  const Mesh mesh = make_layout({.dp = 3}).dense;
  EXPECT_EQ(local_box({5, 2}, {}, mesh, 2), (Box{{0, 0}, {5, 2}}));
  EXPECT_EQ(local_box({}, {}, mesh, 1), Box{});
  const ShardSpec outside{.splits = {{.dim = 2, .axis = Axis::Data}}};
  EXPECT_THROW(local_box({5, 2}, outside, mesh, 0), Error);
}

// Key heads beside the query heads that use them, counted out one by one.
TEST(LocalBox, HoldsTheMultiplesThatItsUsersNeed) {
  constexpr int64_t width = 3;
  for (const auto& [units, users] : {std::pair{1, 4}, {2, 12}, {3, 12}, {2, 6}, {4, 4}})
    for (const int parts : {1, 2, 3, 4, 5}) {
      const ShardSpec spec{.splits = {{.dim = 0, .axis = Axis::Tensor, .multiple = width, .users = users}}};
      const Mesh mesh = make_layout({.tp = parts}).dense;
      const Shape shape{units * width};
      int64_t answered = 0;
      for (int rank = 0; rank < parts; ++rank) {
        std::set<int64_t> needed;
        const Range mine = part_of(users, parts, rank);
        for (int64_t user = mine.begin; user < mine.end; ++user) needed.insert(user / (users / units));
        const Box box = local_box(shape, spec, mesh, rank), own = own_box(shape, spec, mesh, rank);
        ASSERT_EQ(box.extent[0], width * static_cast<int64_t>(needed.size())) << units << users << parts;
        if (!needed.empty()) {
          ASSERT_EQ(box.offset[0], width * *needed.begin());
        }
        // The own boxes follow each other without a gap.
        if (own.extent[0] > 0) {
          ASSERT_EQ(own.offset[0], answered);
        }
        answered += own.extent[0];
      }
      EXPECT_EQ(answered, shape[0]) << units << " units, " << users << " users, " << parts << " parts";
    }
  const ShardSpec uneven{.splits = {{.dim = 0, .axis = Axis::Tensor, .multiple = 2, .users = 4}}};
  EXPECT_THROW(local_box({6}, uneven, make_layout({.tp = 2}).dense, 0), Error);
}

TEST(OwnBox, IsTheLocalBoxWherePartsDoNotOverlap) {
  const Mesh mesh = make_layout({.tp = 3, .dp = 2}).dense;
  const ShardSpec spec{.splits = {{.dim = 1, .axis = Axis::Tensor}}};
  for (int rank = 0; rank < 6; ++rank)
    EXPECT_EQ(own_box({4, 7}, spec, mesh, rank), local_box({4, 7}, spec, mesh, rank));
  EXPECT_EQ(copy_axes(spec), (AxisSet{Axis::Data, Axis::Sequence}));
  EXPECT_EQ(copy_axes({}), (AxisSet{Axis::Data, Axis::Sequence, Axis::Tensor}));
}

TEST(BoxesOfFlatRange, CoverTheRangeExactlyInOrderWithFewBoxes) {
  std::mt19937 random(13);
  for (int trial = 0; trial < 2000; ++trial) {
    const Shape shape = random_shape(random, 5);
    const auto below = static_cast<uint64_t>(shape.elements() + 1);
    int64_t begin = static_cast<int64_t>(random() % below), end = static_cast<int64_t>(random() % below);
    if (begin > end) std::swap(begin, end);
    const std::vector<Box> boxes = boxes_of_flat_range(shape, begin, end);
    ASSERT_LE(static_cast<int>(boxes.size()), std::max(1, 2 * shape.rank() - 1)) << shape.to_string();
    int64_t next = begin;
    for (const Box& box : boxes) {
      ASSERT_GT(box.elements(), 0);
      for (const int64_t index : flat_indices(shape, box))
        ASSERT_EQ(index, next++) << shape.to_string() << " [" << begin << ", " << end << ")";
    }
    ASSERT_EQ(next, end);
  }
}

TEST(BoxesOfFlatRange, KnownCases) {
  EXPECT_EQ(boxes_of_flat_range({}, 0, 1), std::vector<Box>{Box{}});
  EXPECT_TRUE(boxes_of_flat_range({3, 4}, 5, 5).empty());
  EXPECT_EQ(boxes_of_flat_range({3, 4}, 0, 12), (std::vector<Box>{{{0, 0}, {3, 4}}}));
  EXPECT_EQ(boxes_of_flat_range({3, 4}, 2, 11),
            (std::vector<Box>{{{0, 2}, {1, 2}}, {{1, 0}, {1, 4}}, {{2, 0}, {1, 3}}}));
  EXPECT_THROW(boxes_of_flat_range({3, 4}, 2, 13), Error);
}

TEST(Intersection, HoldsExactlyTheCommonElements) {
  std::mt19937 random(17);
  const Shape shape{6, 5, 4};
  const auto random_box = [&] {
    Box box;
    for (int d = 0; d < 3; ++d) {
      const int64_t from = static_cast<int64_t>(random() % static_cast<uint64_t>(shape[d]));
      box.offset.push_back(from);
      box.extent.push_back(static_cast<int64_t>(random() % static_cast<uint64_t>(shape[d] - from + 1)));
    }
    return box;
  };
  for (int trial = 0; trial < 300; ++trial) {
    const Box a = random_box(), b = random_box();
    const std::vector<int64_t> in_a = flat_indices(shape, a), in_b = flat_indices(shape, b);
    std::vector<int64_t> expected;
    std::set_intersection(in_a.begin(), in_a.end(), in_b.begin(), in_b.end(), std::back_inserter(expected));
    EXPECT_EQ(flat_indices(shape, intersection(a, b)), expected);
  }
  EXPECT_THROW(intersection(Box{{0}, {1}}, Box{}), Error);
}

}  // namespace
}  // namespace tessera
