// SPDX-License-Identifier: Apache-2.0
#include "framework/checkpoint/coverage.h"

#include <gtest/gtest.h>

#include <random>

namespace tessera {
namespace {

// Counts each element: slow, obviously right.
bool covered_once(const Shape& shape, const std::vector<Box>& boxes) {
  std::vector<int> counts(static_cast<size_t>(shape.elements()), 0);
  std::vector<int64_t> at(static_cast<size_t>(shape.rank()), 0);
  for (int& count : counts) {
    for (const Box& box : boxes) {
      bool inside = true;
      for (size_t d = 0; d < at.size(); ++d)
        inside = inside && at[d] >= box.offset[d] && at[d] < box.offset[d] + box.extent[d];
      count += inside ? 1 : 0;
    }
    for (size_t d = at.size(); d-- > 0;) {
      if (++at[d] < shape[static_cast<int>(d)]) break;
      at[d] = 0;
    }
  }
  return std::all_of(counts.begin(), counts.end(), [](int count) { return count == 1; });
}

TEST(Coverage, AcceptsWhatCoversOnce) {
  EXPECT_FALSE(coverage_fault({}, std::vector<Box>{{{}, {}}}));
  EXPECT_FALSE(coverage_fault({7}, std::vector<Box>{{{0}, {3}}, {{3}, {4}}}));
  EXPECT_FALSE(coverage_fault({0, 5}, std::vector<Box>{}));
  EXPECT_FALSE(coverage_fault({2, 3}, boxes_of_flat_range({2, 3}, 0, 6)));
}

TEST(Coverage, NamesWhatIsWrong) {
  EXPECT_EQ(coverage_fault({7}, std::vector<Box>{{{0}, {3}}}), "pieces cover 3 of 7 elements");
  EXPECT_TRUE(coverage_fault({}, std::vector<Box>{}));
  EXPECT_TRUE(coverage_fault({}, std::vector<Box>{{{}, {}}, {{}, {}}}));
  EXPECT_TRUE(coverage_fault({7}, std::vector<Box>{{{0}, {8}}}));
  EXPECT_TRUE(coverage_fault({7}, std::vector<Box>{{{-1}, {7}}}));
  EXPECT_TRUE(coverage_fault({7}, std::vector<Box>{{{0}, {7}}, {{0}, {0}}}));
  EXPECT_TRUE(coverage_fault({7}, std::vector<Box>{{{0, 0}, {7, 1}}}));
  // As many elements as there are, but one twice and one not at all.
  EXPECT_TRUE(coverage_fault({4}, std::vector<Box>{{{0}, {2}}, {{1}, {2}}}));
  EXPECT_TRUE(coverage_fault({2, 2}, std::vector<Box>{{{0, 0}, {2, 1}}, {{0, 0}, {1, 2}}}));
  constexpr int64_t kHuge = int64_t{1} << 60;
  EXPECT_TRUE(coverage_fault({kHuge}, std::vector<Box>{{{kHuge}, {kHuge}}}));
}

TEST(Coverage, AgreesWithCountingElements) {
  std::mt19937 random(7);
  const Shape shape{5, 3, 4};
  int right = 0, wrong = 0;
  for (int trial = 0; trial < 2000; ++trial) {
    // A random flat partition, sometimes with one box moved by one.
    std::vector<Box> boxes;
    for (int64_t begin = 0; begin < 60;) {
      const int64_t end = std::min<int64_t>(60, begin + 1 + static_cast<int64_t>(random() % 25));
      for (Box& box : boxes_of_flat_range(shape, begin, end)) boxes.push_back(std::move(box));
      begin = end;
    }
    if (trial % 2 == 0) {
      Box& box = boxes[random() % boxes.size()];
      const size_t d = random() % 3;
      if (box.offset[d] + box.extent[d] < shape[static_cast<int>(d)])
        ++box.offset[d];
      else if (box.offset[d] > 0)
        --box.offset[d];
    }
    const bool expected = covered_once(shape, boxes);
    ASSERT_EQ(!coverage_fault(shape, boxes), expected) << "trial " << trial;
    (expected ? right : wrong) += 1;
  }
  EXPECT_GT(right, 500);
  EXPECT_GT(wrong, 500);
}

TEST(Coverage, ManyPiecesStayQuick) {
  std::vector<Box> boxes;
  for (int64_t i = 0; i < 100000; ++i) boxes.push_back({{i, 0}, {1, 7}});
  EXPECT_FALSE(coverage_fault({100000, 7}, boxes));
  boxes[5].offset[0] = 6;
  EXPECT_TRUE(coverage_fault({100000, 7}, boxes));
}

}  // namespace
}  // namespace tessera
