// SPDX-License-Identifier: Apache-2.0
#include "framework/parallel/pipeline/svg.h"

#include <gtest/gtest.h>

#include <regex>
#include <set>

#include "framework/parallel/pipeline/generate.h"

namespace tessera {
namespace {

struct Box {
  double x, y, width;
  std::string colour;
};

std::vector<Box> boxes_of(const std::string& svg) {
  const std::regex box(
      "<rect class=\"action\" x=\"([0-9.]+)\" y=\"([0-9.]+)\" width=\"([0-9.]+)\" height=\"20\" "
      "fill=\"([^\"]*)\"");
  std::vector<Box> boxes;
  for (auto it = std::sregex_iterator(svg.begin(), svg.end(), box); it != std::sregex_iterator(); ++it)
    boxes.push_back({std::stod((*it)[1]), std::stod((*it)[2]), std::stod((*it)[3]), (*it)[4]});
  return boxes;
}

TEST(Svg, ABoxForEachActionAtItsTimeInTheRowOfItsRank) {
  const Schedule schedule = zb_v(3, 4);
  const Simulation simulation = simulate(schedule, equal_costs(schedule.stages));
  const auto boxes = boxes_of(to_svg(simulation.work, "three ranks"));
  ASSERT_EQ(boxes.size(), 3u * 2 * 4 * 3);
  const double scale = 1200 / simulation.seconds();
  size_t i = 0;
  for (size_t rank = 0; rank < 3; ++rank)
    for (const TimedAction& timed : simulation.work[rank]) {
      EXPECT_NEAR(boxes[i].x, 60 + scale * timed.start, 0.01);
      EXPECT_NEAR(boxes[i].width, scale * (timed.end - timed.start), 0.01);
      EXPECT_EQ(boxes[i].y, 56 + 24 * static_cast<double>(rank));
      ++i;
    }
  std::set<std::string> colours;
  for (const Box& box : boxes) colours.insert(box.colour);
  EXPECT_EQ(colours.size(), 3u);
}

TEST(Svg, IdleSharesAndTitlesAreWritten) {
  const Simulation simulation = simulate(one_forward_one_backward(2, 1), equal_costs(2));
  const std::string svg = to_svg(simulation.work, "p < m & more");
  EXPECT_NE(svg.find("p &lt; m &amp; more"), std::string::npos);
  EXPECT_NE(svg.find("idle 50.0 %"), std::string::npos) << svg;
  EXPECT_NE(svg.find("<title>1B0: at 2000 ms, 2000 ms</title>"), std::string::npos) << svg;
  EXPECT_NE(svg.find("rank 1"), std::string::npos);
}

TEST(Svg, WhatLeavesAndComesBackHasANameOfItsOwn) {
  const std::string svg = to_svg({{{{ActionKind::Offload}, 0, 1}, {{ActionKind::Reload}, 1, 2}}}, "a store");
  EXPECT_NE(svg.find(">offload<"), std::string::npos);
  EXPECT_NE(svg.find(">reload<"), std::string::npos);
}

TEST(Svg, NoActionsAreAnEmptyDrawing) {
  const std::string svg = to_svg({{}, {}}, "nothing");
  EXPECT_TRUE(boxes_of(svg).empty());
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
}

}  // namespace
}  // namespace tessera
