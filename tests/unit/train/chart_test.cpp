// SPDX-License-Identifier: Apache-2.0
#include "framework/train/chart.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "framework/train/chart_scale.h"

namespace tessera {
namespace {

std::string labels(double low, double high, bool log, int count = 5) {
  std::string text;
  for (const Tick& tick : AxisScale(low, high, log).ticks(count)) text += tick.label + " ";
  return text;
}

TEST(ChartScale, TicksAreRoundAndToldApart) {
  EXPECT_EQ(labels(0, 1, false), "0 0.2 0.4 0.6 0.8 1 ");
  EXPECT_EQ(labels(1, 300, false), "100 200 300 ");
  EXPECT_EQ(labels(0, 300, false, 8), "0 50 100 150 200 250 300 ");
  EXPECT_EQ(labels(-3, 12, false), "0 5 10 ");
  EXPECT_EQ(labels(3.1416, 3.1418, false), "3.1416 3.14165 3.1417 3.14175 3.1418 ");
  EXPECT_EQ(labels(0, 3e-4, false), "0 0.0001 0.0002 0.0003 ");
  EXPECT_EQ(labels(0, 6e9, false, 3), "0 2e+09 4e+09 6e+09 ");
  EXPECT_EQ(labels(0.5, 60, true), "0.5 1 2 5 10 20 50 ");
  EXPECT_EQ(labels(1e-4, 10, true), "0.0001 0.001 0.01 0.1 1 10 ");
  EXPECT_EQ(labels(2, 4, true), "2 2.5 3 3.5 4 ");
}

TEST(ChartScale, AnyRangeHasTicksInsideOfIt) {
  for (const double low : {-1e300, -1e9, -1.0, 0.0, 1e-300, 1e-12, 1.0, 1.0 + 1e-15, 1e9, 1e300})
    for (const double high : {-1e300, -1e9, -1.0, 0.0, 1e-300, 1e-12, 1.0, 1.0 + 1e-15, 1e9, 1e300})
      for (const bool log : {false, true}) {
        if (low > high || (log && low <= 0)) continue;
        const AxisScale scale(low, high, log);
        const auto ticks = scale.ticks(6);
        SCOPED_TRACE(testing::Message() << low << " to " << high << (log ? " by ratio" : ""));
        EXPECT_GE(ticks.size(), 1u);
        EXPECT_LE(ticks.size(), 13u);
        for (const Tick& tick : ticks) {
          EXPECT_GE(scale.place(tick.value), -1e-6) << tick.label;
          EXPECT_LE(scale.place(tick.value), 1 + 1e-6) << tick.label;
        }
        EXPECT_GE(scale.place(low), 0);
        EXPECT_LE(scale.place(high), 1);
      }
}

TEST(ChartScale, EqualRatiosAreEqualLengthsByRatio) {
  const AxisScale scale(1, 100, true);
  EXPECT_NEAR(scale.place(10), 0.5, 1e-12);
  EXPECT_FALSE(can_show(0, true));
  EXPECT_FALSE(can_show(-1, true));
  EXPECT_FALSE(can_show(INFINITY, false));
  EXPECT_TRUE(can_show(-1, false));
}

TEST(Chart, ThinningKeepsEverySpikeAndGap) {
  constexpr int kSteps = 100'003, kColumns = 97;
  Series points;
  for (int step = 1; step <= kSteps; ++step)
    points.push_back({static_cast<double>(step), 3 + std::sin(step * 0.001) + 0.1 * ((step * 7919) % 101)});
  points[50'000].value = 900;  // spikes of one step
  points[50'017].value = -900;
  points[70'000].value = kNoValue;
  const Series kept = thinned(points, 1, kSteps, kColumns);
  EXPECT_LE(kept.size(), 5u * kColumns);
  EXPECT_GE(kept.size(), 2u * kColumns);
  EXPECT_EQ(kept.front(), points.front());
  EXPECT_EQ(kept.back(), points.back());
  EXPECT_NE(std::ranges::find(kept, points[50'000]), kept.end());
  EXPECT_NE(std::ranges::find(kept, points[50'017]), kept.end());
  EXPECT_EQ(std::ranges::count_if(kept, [](const Point& p) { return std::isnan(p.value); }), 1);
  EXPECT_TRUE(std::ranges::is_sorted(kept, {}, &Point::step));
  // The first column, and the five from the 86th on.
  for (const auto& [first, last] : {std::pair{1, 1'042}, {89'587, 94'794}}) {
    const auto extent = [first = first, last = last](const Series& series) {
      double low = INFINITY, high = -INFINITY;
      for (const Point& p : series)
        if (p.step >= first && p.step <= last) low = std::min(low, p.value), high = std::max(high, p.value);
      return std::pair(low, high);
    };
    EXPECT_EQ(extent(kept), extent(points));
  }
  EXPECT_EQ(thinned(Series(points.begin(), points.begin() + 5 * kColumns), 1, kSteps, kColumns).size(),
            5u * kColumns);
}

TEST(Chart, GapsLiftThePenAndLoneValuesAreDots) {
  const Chart chart{
      .title = "t",
      .unit = "",
      .curves = {{"c", {{0, 0}, {1, 1}, {2, kNoValue}, {3, 1}, {4, kNoValue}, {5, 0}, {10, 1}}, {}}}};
  // The plot is 640 by 260 from (84, 40) down.
  EXPECT_NE(to_svg(chart).find("<path d=\"M84.00 300.00L84.00 300.00L148.00 40.00M276.00 40.00L276.00 40.00"
                               "M404.00 300.00L404.00 300.00L724.00 40.00\"/>"),
            std::string::npos)
      << to_svg(chart);
}

TEST(Chart, ByRatioValuesThatAreNotPositiveAreGaps) {
  Chart chart{
      .title = "t", .unit = "", .curves = {{"c", {{0, 1}, {1, 0}, {2, 100}, {3, -5}}, {}}}, .log = true};
  EXPECT_NE(to_svg(chart).find("<path d=\"M84.00 300.00L84.00 300.00M510.67 40.00L510.67 40.00\"/>"),
            std::string::npos)
      << to_svg(chart);
  chart.curves[0].points = {{0, 0}, {1, -1}};
  EXPECT_TRUE(is_empty(chart));
  EXPECT_EQ(to_svg(chart).find("nan"), std::string::npos);
}

}  // namespace
}  // namespace tessera
