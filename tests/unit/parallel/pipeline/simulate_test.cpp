// SPDX-License-Identifier: Apache-2.0
#include "framework/parallel/pipeline/simulate.h"

#include <gtest/gtest.h>

#include "framework/base/check.h"
#include "framework/parallel/pipeline/generate.h"
#include "framework/parallel/pipeline/passes.h"

namespace tessera {
namespace {

TEST(Simulate, OneRankIsTheSumOfItsWork) {
  const CostModel costs = equal_costs(1, {.forward = 2, .backward_input = 3, .backward_weight = 4});
  const Simulation simulation = simulate(one_stage(5), costs);
  EXPECT_DOUBLE_EQ(simulation.seconds(), 45);
  EXPECT_DOUBLE_EQ(simulation.bubble(), 0);
  EXPECT_EQ(simulation.peak_bytes(), 1);
}

// By hand: F of 1 and 3, I and W of 2 and 1 on the second stage, 1 each on the first, messages of 0.5.
TEST(Simulate, UnequalStagesAndMessages) {
  CostModel costs({{{.forward = 1, .backward_input = 1, .backward_weight = 1}},
                   {{.forward = 3, .backward_input = 2, .backward_weight = 1}}});
  costs.message = 0.5;
  const Schedule order = schedule_from_text("0F0 0F1 0B0 0B1\n1F0 1I0 1F1 1W0 1I1 1W1\n");
  const Simulation simulation = simulate(order, costs);
  const auto starts = [](const std::vector<TimedAction>& work) {
    std::vector<double> times;
    for (const TimedAction& timed : work) times.push_back(timed.start);
    return times;
  };
  EXPECT_EQ(starts(simulation.work[0]), (std::vector<double>{0, 1, 7, 13}));
  EXPECT_EQ(starts(simulation.work[1]), (std::vector<double>{1.5, 4.5, 6.5, 9.5, 10.5, 12.5}));
  EXPECT_DOUBLE_EQ(simulation.seconds(), 15);
  EXPECT_DOUBLE_EQ(simulation.longest_rank(), 15);
  EXPECT_DOUBLE_EQ(simulation.ranks[1].end - simulation.ranks[1].start, 12);
  EXPECT_DOUBLE_EQ(simulation.bubble(), 1 - 18.0 / 30);
  // Messages travel beside the work, and the receives are early enough.
  EXPECT_DOUBLE_EQ(simulate(with_messages(order), costs).seconds(), 15);
  // They keep each end from its work for a while, unless it waits anyway.
  costs.message_busy = 0.25;
  EXPECT_GT(simulate(with_messages(order), costs).seconds(), 15);
}

TEST(Simulate, AMessageWaitsForBothEndsAndForTheOneBefore) {
  CostModel costs = equal_costs(2);
  costs.message = 4;
  // Two activations of a slow channel: the second leaves when the first is there.
  const Schedule sends =
      schedule_from_text("0F0 0SA0 0F1 0SA1 0RG0 0B0 0RG1 0B1\n1RA0 1RA1 1F0 1B0 1SG0 1F1 1B1 1SG1\n");
  EXPECT_DOUBLE_EQ(simulate(sends, costs).work[1][0].start, 5);
  EXPECT_DOUBLE_EQ(simulate(sends, costs).work[1][2].start, 9);
  // A receive that is reached late starts its message late.
  const Schedule late =
      schedule_from_text("0F0 0SA0 0F1 0SA1 0RG0 0B0 0RG1 0B1\n1RA0 1F0 1B0 1SG0 1RA1 1F1 1B1 1SG1\n");
  EXPECT_DOUBLE_EQ(simulate(late, costs).work[1][2].start, 12);
}

TEST(Simulate, MessagesOfAPassCostWhatEarlyReceivesWould) {
  for (const auto& make : {gpipe, one_forward_one_backward, zb_h1, zb_h2, zb_v, v_half, v_min, dualpipe_v}) {
    const Schedule schedule = make(5, 13);
    CostModel costs =
        equal_costs(schedule.stages, {.forward = 1, .backward_input = 1.1, .backward_weight = 0.8});
    costs.message = 0.02;
    const double plain = simulate(schedule, costs).seconds();
    EXPECT_NEAR(simulate(with_messages(schedule), costs).seconds() / plain, 1, 0.01) << to_text(schedule);
  }
}

TEST(Simulate, RecomputationTakesTimeAndSavesMemory) {
  const CostModel costs = equal_costs(4, {.saved = 100, .saved_for_weight = 50, .input = 7});
  const Schedule order = gpipe(4, 8);
  const Simulation kept = simulate(order, costs);
  const Simulation again = simulate(with_recomputation(order, std::vector<bool>(4, true)), costs);
  EXPECT_EQ(kept.peak_bytes(), 800);
  EXPECT_EQ(again.peak_bytes(), 7 * 7 + 100);
  EXPECT_DOUBLE_EQ(kept.seconds(), 33);
  // A rank that waits for a gradient recomputes meanwhile: all but the first of each rank's ramp is paid.
  EXPECT_DOUBLE_EQ(again.seconds(), 41);
}

TEST(Simulate, UnitsAddUpToTheirStage) {
  const WorkCost block{.forward = 0.5,
                       .backward_input = 0.5,
                       .backward_weight = 0.25,
                       .saved = 10,
                       .saved_for_weight = 4,
                       .input = 1};
  const CostModel costs({{block, block}, {block, block, block}});
  const Schedule whole = with_messages(zb_h1(2, 6));
  const Simulation stages = simulate(whole, costs), units = simulate(with_units(whole, {2, 3}), costs);
  EXPECT_NEAR(stages.seconds(), units.seconds(), 1e-12);
  EXPECT_EQ(stages.peak_bytes(), units.peak_bytes());
  EXPECT_EQ(costs.of(1, -1).input, 1);  // a stage that recomputes keeps the input of its first unit
}

TEST(Simulate, ActivationsThatWaitForTheirWeightGradientCount) {
  const CostModel costs = equal_costs(1, {.saved = 100, .saved_for_weight = 40});
  EXPECT_EQ(simulate(schedule_from_text("0F0 0I0 0F1 0I1 0W0 0W1"), costs).peak_bytes(), 140);
  EXPECT_EQ(simulate(schedule_from_text("0F0 0I0 0W0 0F1 0I1 0W1"), costs).peak_bytes(), 100);
  EXPECT_EQ(simulate(schedule_from_text("0F0 0F1 0B0 0B1"), costs).peak_bytes(), 200);
}

TEST(Simulate, ReceivedMessagesAreHeldUntilTheirUse) {
  CostModel costs = equal_costs(2, {.saved = 100, .saved_for_weight = 100});
  costs.message_bytes = 30;
  const Schedule schedule =
      schedule_from_text("0F0 0SA0 0F1 0SA1 0RG0 0B0 0RG1 0B1\n1RA0 1RA1 1F0 1B0 1SG0 1F1 1B1 1SG1\n");
  const Simulation simulation = simulate(schedule, costs);
  EXPECT_EQ(simulation.ranks[0].peak_bytes, 230);
  EXPECT_EQ(simulation.ranks[1].peak_bytes, 130);
}

TEST(Simulate, WhatIsAwayTakesNoMemoryFromTheEndOfTheNextWorkOn) {
  const CostModel costs = equal_costs(1, {.saved = 100, .saved_for_weight = 40, .input = 7});
  const auto peak = [&](const char* text) { return simulate(schedule_from_text(text), costs).peak_bytes(); };
  EXPECT_EQ(peak("0F0 0F1 0F2 0B2 0B1 0B0"), 300);
  // During the next forward it is still there.
  EXPECT_EQ(peak("0F0 0O0 0F1 0O1 0F2 0B2 0L1 0L0 0B1 0B0"), 200);
  EXPECT_EQ(peak("0F0 0O0 0F1 0L0 0F2 0B2 0B1 0B0"), 300);
  // Of a forward that runs again, its input is what moves.
  EXPECT_EQ(peak("0K0 0O0 0F1 0F2 0L0 0B1 0C0 0B0 0B2"), 207);
  const Simulation twice = simulate(schedule_from_text("0F0 0O0 0K1 0O1 0F2 0B2 0L1 0L0 0C1 0B1 0B0"), costs);
  EXPECT_EQ(twice.ranks[0].offloaded_bytes, 107);
}

TEST(Simulate, TransfersOfAStoreRunBesideTheWorkOneAtATime) {
  CostModel costs = equal_costs(1, {.saved = 100, .saved_for_weight = 40});
  const auto seconds = [&](const char* text) { return simulate(schedule_from_text(text), costs).seconds(); };
  const char* order = "0F0 0O0 0F1 0F2 0L0 0B2 0B0 0B1";
  costs.store = 0.01;  // a second to write, and to read: hidden by a forward, and by a backward of 2
  EXPECT_DOUBLE_EQ(seconds(order), 9);
  costs.store = 0.03;  // 2 seconds longer than the forward, 1 longer than the backward
  EXPECT_DOUBLE_EQ(seconds(order), 9 + 2 + 1);
  // Writes end at 4 and 7, reads at 10 and 13: each is waited for by its work.
  EXPECT_DOUBLE_EQ(seconds("0F0 0O0 0F1 0O1 0F2 0L0 0L1 0B2 0B0 0B1"), 15);
}

TEST(Simulate, GathersAndReductionsRunBesideTheWork) {
  CostModel costs({{WorkCost{}, WorkCost{}}});
  costs.gather = 0.5;
  costs.reduce = 5;
  const Schedule units = with_units(one_stage(1), {2});
  // One unit at a time: each of the three gathers is waited for.
  EXPECT_DOUBLE_EQ(simulate(with_parameter_gathers(units, 0), costs).seconds(), 6 + 3 * 0.5);
  EXPECT_DOUBLE_EQ(simulate(with_parameter_gathers(units, 1), costs).ranks[0].start, 0.5);
  // The first bucket's reduction hides behind the last unit's backward; the second comes after the first.
  EXPECT_DOUBLE_EQ(simulate(with_gradient_reduction(units, {{1, 0}}), costs).seconds(), 4 + 5 + 5);
}

TEST(Simulate, RanksThatWaitForEachOtherAreAnError) {
  EXPECT_THROW(simulate(schedule_from_text("0F0 0B1 0F1 0B0\n1F0 1F1 1B0 1B1\n"), equal_costs(2)), Error);
}

}  // namespace
}  // namespace tessera
