// SPDX-License-Identifier: Apache-2.0
// Traces, clocks and the summary of time, from spans that are written down here.
#include "framework/train/trace.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "framework/parallel/pipeline/generate.h"
#include "framework/train/time_summary.h"
#include "tests/support/scratch_folder.h"

namespace tessera {
namespace {

using Span = Timeline::Span;
using Row = Timeline::Row;

Span work(const char* name, double start, double end) {
  return {.activity = Activity::Compute, .name = name, .start = start, .end = end};
}
Span beside(double start, double end) {
  return {.row = Row::Communication,
          .activity = Activity::Communication,
          .name = "0SA0",
          .detail = "pp: exchange(...)",
          .start = start,
          .end = end};
}
Span blocked(double start, double end) {
  return {.activity = Activity::Communication, .start = start, .end = end};
}

// Rank 0 works from 100 to 104 and 106 to 110; a message goes from 103 to 107, blocked for from 104 to 106.
std::vector<RankTrace> two_ranks() {
  return {
      {.place = "pp 0",
       .start = 100,
       .end = 112,
       .spans = {work("0F0.0", 100, 102), work("0F0.1", 102, 104), blocked(104, 106), work("0B0.1", 106, 109),
                 work("0B0.0", 109, 110), beside(103, 107), beside(105, 108)}},
      {.place = "pp 1", .start = 101, .end = 112, .spans = {work("1F0", 104, 105), work("1B0", 105, 106)}}};
}

TEST(Trace, IsInTheTraceEventFormat) {
  const nlohmann::json trace = nlohmann::json::parse(to_chrome_json(two_ranks(), Steps(3)));
  EXPECT_EQ(trace["otherData"]["step"], 3);
  std::map<std::pair<int, int>, std::vector<std::pair<double, double>>> rows;
  std::map<std::pair<int, int>, std::string> row_names;
  std::map<int, int> process_of;
  for (const auto& event : trace["traceEvents"]) {
    const std::pair<int, int> row(event["pid"], event["tid"]);
    // Viewers that know a thread by its number alone must not mix rows of two ranks, and 0 is no thread.
    EXPECT_GT(row.first, 0);
    EXPECT_GT(row.second, 0);
    EXPECT_EQ(process_of.emplace(row.second, row.first).first->second, row.first);
    if (event["ph"] == "M") {
      if (event["name"] == "thread_name") row_names[row] = event["args"]["name"];
      continue;
    }
    EXPECT_EQ(event["ph"], "X");
    const double start = event["ts"], length = event["dur"];
    rows[row].emplace_back(start, start + length);
    if (event["name"] == "0B0.1") {
      EXPECT_EQ(event["args"], (nlohmann::json{{"stage", 0}, {"unit", 1}, {"microbatch", 0}}));
      EXPECT_DOUBLE_EQ(start, 6e6);
      EXPECT_DOUBLE_EQ(length, 3e6);
    }
  }
  EXPECT_EQ(rows.at({1, 1}).size(), 5u);
  // Two messages at once stand on two rows.
  EXPECT_EQ(rows.at({1, 3}).size(), 1u);
  EXPECT_EQ(rows.at({1, 4}).size(), 1u);
  EXPECT_EQ(rows.at({2, 2}).size(), 2u);
  EXPECT_EQ(row_names.at({1, 1}), "compute");
  EXPECT_EQ(row_names.at({2, 2}), "compute");
  EXPECT_EQ(row_names.at({1, 4}), "communication 2");
}

// Perfetto rounds start and length to nanoseconds, and drops a span that overlaps the one before.
TEST(Trace, SpansThatTouchDoSoInWholeNanoseconds) {
  RankTrace trace{.place = "pp 0"};
  for (int i = 0; i < 1000; ++i) trace.spans.push_back(work("0F0", 1e-6 / 7 * i, 1e-6 / 7 * (i + 1)));
  const auto json = nlohmann::json::parse(to_chrome_json(std::span(&trace, 1), Steps(1)));
  int64_t end = 0;
  for (const auto& event : json["traceEvents"]) {
    if (event["ph"] != "X") continue;
    EXPECT_EQ(std::llround(1e3 * event["ts"].get<double>()), end);
    end += std::llround(1e3 * event["dur"].get<double>());
  }
  EXPECT_EQ(end, 142857);
}

TEST(Trace, OverlapIsTheCommunicationUnderWork) {
  const auto traces = two_ranks();
  // Messages are under way from 103 to 108; of that the rank works 103 to 104 and 106 to 108.
  EXPECT_DOUBLE_EQ(overlap(traces[0]), 3.0 / 5);
  EXPECT_DOUBLE_EQ(overlap(traces[1]), 1);
  // A wait inside an action is no work.
  const RankTrace nested{.spans = {work("0F0", 0, 10), blocked(2, 6), beside(0, 10)}};
  EXPECT_DOUBLE_EQ(overlap(nested), 0.6);
}

TEST(Trace, TheTableSaysBubbleAndSharesOfEachRank) {
  auto traces = two_ranks();
  traces[0].times[static_cast<size_t>(Activity::Compute)] = 6;
  traces[0].times[static_cast<size_t>(Activity::Idle)] = 2;
  const std::string table = to_table(traces);
  std::istringstream lines(table);
  std::string header, first, second;
  std::getline(lines, header), std::getline(lines, first), std::getline(lines, second);
  // Work from 100 to 110, of which rank 0 has 8 s and rank 1 2 s.
  EXPECT_TRUE(first.starts_with("0     20.0 %   75.0 %   0.0 %    0.0 %          25.0 %")) << table;
  EXPECT_TRUE(first.ends_with("60.0 %")) << table;
  EXPECT_TRUE(second.starts_with("1     80.0 %")) << table;
}

TEST(Trace, UnitsOfAStageAreOneAction) {
  const auto actions = measured_work(two_ranks());
  ASSERT_EQ(actions.size(), 2u);
  ASSERT_EQ(actions[0].size(), 2u);
  EXPECT_EQ(to_text(actions[0][0].action), "0F0");
  EXPECT_DOUBLE_EQ(actions[0][0].start, 0);
  EXPECT_DOUBLE_EQ(actions[0][0].end, 4);
  EXPECT_DOUBLE_EQ(actions[0][1].end, 10);
  const CostModel costs = measured_costs(actions, 2);
  EXPECT_DOUBLE_EQ(costs.of(0, -1).forward, 4);
  EXPECT_DOUBLE_EQ(costs.of(0, -1).backward_input, 4);
  EXPECT_DOUBLE_EQ(costs.of(0, -1).backward_weight, 0);
}

TEST(Trace, TheDrawingHasThePlanAboveWhatWasMeasured) {
  const std::string svg = to_svg(two_ranks(), one_forward_one_backward(2, 1), Steps(3));
  const size_t planned = svg.find("step 3, planned"), measured = svg.find("step 3, measured");
  ASSERT_NE(planned, std::string::npos);
  ASSERT_NE(measured, std::string::npos);
  EXPECT_LT(planned, measured);
  // Four boxes each; the plan runs 0F0 4 s, 1F0 1 s, 1B0 1 s, 0B0 4 s.
  size_t boxes = 0;
  for (size_t at = svg.find("class=\"action\""); at != std::string::npos;
       at = svg.find("class=\"action\"", at + 1))
    ++boxes;
  EXPECT_EQ(boxes, 8u);
  EXPECT_NE(svg.find("bubble 50.0 %"), std::string::npos);
}

// Clocks that differ by 5 s, ways of 1 ms to one side and 3 ms to the other at best.
TEST(ClockOffset, IsHalfTheDifferenceOfTheShortestWays) {
  std::vector<ClockRound> rounds;
  for (int i = 0; i < 6; ++i) {
    const double there = 10.0 * i, late = 0.01 * ((i * 5) % 6);
    rounds.push_back({.sent_here = there + 5,
                      .sent_there = there,
                      .seen_here = there + 5.001 + late,
                      .seen_there = there + 0.003 + (i == 4 ? 0 : 0.002)});
  }
  const ClockOffset offset = offset_from(rounds);
  EXPECT_NEAR(offset.seconds, 5 - 0.001, 1e-9);
  EXPECT_NEAR(offset.error, 0.002, 1e-9);
  EXPECT_LE(std::abs(offset.seconds - 5), offset.error);
}

TEST(TimeSummary, GoodputCountsTheStepsThatLast) {
  const test::ScratchFolder folder;
  std::ofstream(folder / "metrics.jsonl") << "{\"step\":1,\"step_seconds\":2.0,\"skipped\":false}\n"
                                             "{\"step\":2,\"step_seconds\":3.0,\"skipped\":true}\n"
                                             "{\"step\":3,\"step_seconds\":4.0,\"skipped\":false}\n";
  std::ofstream(folder / "metrics.lost.jsonl")
      << "{\"step\":3,\"step_seconds\":1.0,\"skipped\":false}\n{\"step\":4,";
  const Goodput goodput = read_goodput(folder / "metrics.jsonl", folder / "metrics.lost.jsonl");
  EXPECT_EQ(goodput.kept, 6);
  EXPECT_EQ(goodput.kept_steps, 2);
  EXPECT_EQ(goodput.skipped, 3);
  EXPECT_EQ(goodput.lost, 1);
  EXPECT_EQ(goodput.lost_steps, 1);
  EXPECT_DOUBLE_EQ(goodput.share(2), 0.5);
  EXPECT_EQ(read_goodput(folder / "none", folder / "none").share(0), 0);
}

TEST(TimeSummary, SharesAreOfTheTimeOfAllRanks) {
  std::vector<ActivityTimes> ranks(2);
  ranks[0][static_cast<size_t>(Activity::Compute)] = 3;
  ranks[0][static_cast<size_t>(Activity::Idle)] = 1;
  ranks[1][static_cast<size_t>(Activity::Compute)] = 1;
  ranks[1][static_cast<size_t>(Activity::Communication)] = 3;
  const std::string line = to_line(ranks);
  EXPECT_TRUE(line.starts_with("4.000 s of 2 ranks: ")) << line;
  for (const char* part :
       {"compute 50.0 % (2.0000 s; 1.0000 to 3.0000)", "idle 12.5 % (0.5000 s; 0.0000 to 1.0000)",
        "communication not hidden 37.5 % (1.5000 s; 0.0000 to 3.0000)",
        "data 0.0 % (0.0000 s; 0.0000 to 0.0000)"})
    EXPECT_NE(line.find(part), std::string::npos) << line;
}

}  // namespace
}  // namespace tessera
