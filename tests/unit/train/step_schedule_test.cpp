// SPDX-License-Identifier: Apache-2.0
#include "framework/train/step_schedule.h"

#include <gtest/gtest.h>

#include <limits>

#include "framework/base/check.h"
#include "framework/config/resolve.h"
#include "framework/parallel/pipeline/generate.h"
#include "framework/parallel/pipeline/simulate.h"
#include "framework/train/schedule_file.h"

namespace tessera {
namespace {

// The config counts stages before it may know how they are placed: both must say the same of every form.
TEST(StepSchedule, TheConfigKnowsHowManyStagesARankHas) {
  for (const std::string_view form : schedule_names())
    for (const int ranks : {2, 3}) {
      ParallelSection parallel;
      parallel.pp = ranks;
      parallel.schedule = form;
      parallel.virtual_stages = form == "interleaved" ? 3 : 1;
      const Schedule schedule =
          named_schedule(form, ranks, 2 * ranks, static_cast<int>(parallel.virtual_stages));
      EXPECT_EQ(stages_per_rank(parallel) * ranks, schedule.stages) << form << " on " << ranks;
    }
}

// Stages of unequal cost, two on each rank.
StagePlan v_plan(int ranks) {
  StagePlan plan{.rank_of_stage = v_placement(ranks), .first_unit = {}};
  for (int unit = 0; unit <= 2 * ranks; ++unit) plan.first_unit.push_back(unit + (unit > 1));
  return plan;
}
CostModel costs_of(const StagePlan& plan) {
  std::vector<std::vector<WorkCost>> costs;
  for (int stage = 0; stage < plan.stages(); ++stage)
    costs.emplace_back(static_cast<size_t>(plan.units_of(stage)), WorkCost{.forward = 1.0 + 0.1 * stage});
  return CostModel(std::move(costs));
}

TEST(AutoSchedule, IsTheSameEveryTimeAndKeepsItsBound) {
  const StagePlan plan = v_plan(3);
  const CostModel costs = costs_of(plan);
  double quickest = std::numeric_limits<double>::infinity();
  for (const int live : {2, 3, 6}) {
    const StepSchedule options{.form = "auto", .live_activations = live};
    const Schedule schedule = plain_schedule(options, plan, costs, 7);
    EXPECT_EQ(to_text(plain_schedule(options, plan, costs, 7)), to_text(schedule));
    // Rank 1 holds stages 1, of two units, and 4: three bytes a micro-batch.
    const Simulation simulation = simulate(schedule, costs);
    EXPECT_LE(simulation.peak_bytes(), 3 * live);
    EXPECT_LE(simulation.seconds(), quickest) << "more memory, and slower";
    quickest = simulation.seconds();
  }
}

// A stage keeps more between its input and its weight gradient than before.
TEST(AutoSchedule, KeepsItsBoundWhereWeightGradientsNeedMore) {
  const StagePlan plan = v_plan(3);
  std::vector<std::vector<WorkCost>> of_stage;
  for (int stage = 0; stage < plan.stages(); ++stage)
    of_stage.emplace_back(static_cast<size_t>(plan.units_of(stage)),
                          WorkCost{.forward = 1.2, .saved = 10, .saved_for_weight = 14});
  const CostModel costs(std::move(of_stage));
  for (const int live : {1, 2, 3}) {
    const Schedule schedule = plain_schedule({.form = "auto", .live_activations = live}, plan, costs, 7);
    EXPECT_LE(simulate(schedule, costs).peak_bytes(), 3 * 14 * live);
  }
}

TEST(ScheduleFile, WhatIsPrintedReadsBack) {
  for (const std::string_view form : schedule_names())
    for (const int microbatches : {1, 5}) {
      const Schedule schedule = named_schedule(form, 3, microbatches, 2);
      const std::string text = "# a comment\n\n" + to_text(schedule) + "\nwhatever follows\n";
      const Schedule read = schedule_of_file("order.txt", text, 3, microbatches);
      EXPECT_EQ(to_text(read), to_text(schedule)) << form;
      EXPECT_EQ(read.rank_of_stage, schedule.rank_of_stage) << form;
    }
}

TEST(ScheduleFile, AFaultIsShownAtItsLineAndColumn) {
  const auto error_of = [](const char* text) -> std::string {
    try {
      schedule_of_file("order.txt", text, 2, 2);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::Usage);
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(error_of("0F0 0F1 0B0 0B1\n1F0 1B0 1F1 1B1\n"), "no error");
  for (const auto& [text, expected] :
       {std::pair{"#\n0F0 0F1 0B0 0B1\n1F0 1Y0 1F1 1B1", "order.txt:3:5: '1Y0' is not an action"},
        {"0F0 0F1 0B0 0B1\n1F0 1B0 1B1 1F1", "order.txt:2:9: the schedule is not valid: rank 1: "},
        {"0F0 0F1 0B0 0B1\n1F0 1B0 1F1", "order.txt:2:12: the schedule is not valid: rank 1: "},
        {"0F0 0F1  0F1 0B0 0B1\n1F0 1B0 1F1 1B1",
         "order.txt:1:10: the schedule is not valid: rank 0: its forward"},
        {"0F0 0B0 0F1 0B1\n1F1 1B1 1F0 1B0",
         "order.txt:1:5: the schedule is not valid: rank 0: it waits for ever"},
        {"0F0 0B0\n1F0", "order.txt:1:1: 3 actions are too few"},
        {"0F0 0F1 0B0 0B2\n1F0 1B0 1F1 1B1", "order.txt:1:13: 0B2: it is of micro-batch 2, and there are 2"},
        {"0F0 0SA0 0F1 0B0 0B1\n1F0 1B0 1F1 1B1", "order.txt:1:5: 0SA0: a file has the work of whole stages"},
        {"0F0.0 0F1 0B0 0B1\n1F0 1B0 1F1 1B1", "order.txt:1:1: 0F0.0: a file has the work of whole stages"},
        {"0F0 0B0 0F1 0B1\n", "order.txt:1:1: it has lists of 1 rank, and parallel.pp is 2"},
        {"0F0 0F1 0B0 0B1\n\n1F0 1B0 1F1 1B1", "order.txt:1:1: it has lists of 1 rank, and parallel.pp is 2"},
        {"0F0 0F1 0B0 0B1\n3F0 3B0 3F1 3B1",
         "order.txt:1:1: there are stages above 1, and no work of stage 1"},
        {"0F0 0F1 0B0\n0B1", "order.txt:2:1: 0B1: rank 1 has no stage of its own"}})
    EXPECT_EQ(error_of(text).substr(0, std::string_view(expected).size()), expected);
}

TEST(ScheduleFile, SaysWhatLeavesAndComesBack) {
  const char* text = "0F0 0O0 0F1 0L0 0B1 0B0\n";
  EXPECT_EQ(to_text(schedule_of_file("order.txt", text, 1, 2)), text);
  EXPECT_THROW(schedule_of_file("order.txt", "0F0 0O0.0 0F1 0L0 0B1 0B0", 1, 2), Error);
  EXPECT_THROW(schedule_of_file("order.txt", "0F0 0O0 0L0 0F1 0B1 0B0", 1, 2), Error);
}

TEST(UnitSchedule, OffloadsAsTheListHasItOrWhereItIsAGain) {
  const StagePlan plan = make_stage_plan({0}, {3});
  const auto text = [&](bool offload, const char* whole) {
    return to_text(unit_schedule(plan, {.offload = offload}, schedule_from_text(whole)));
  };
  const char* by_hand = "0F0 0O0 0F1 0L0 0B1 0B0";
  EXPECT_EQ(text(true, "0F0 0B0").find("0F0.0 0O0.0 0F0.1 0O0.1 0F0.2 0O0.2 0F0.3 0F0.4 0B0.4"), 0u);
  EXPECT_EQ(text(false, "0F0 0B0").find('O'), std::string::npos);
  EXPECT_EQ(text(true, by_hand), text(false, by_hand));
  EXPECT_NE(text(false, by_hand).find("0F0.4 0O0.0 0O0.1 0O0.2 0O0.3 0O0.4 0F1.0"), std::string::npos);
}

TEST(ZeroPlan, DividesNothingWhereThereIsNobodyToDivideWith) {
  ParallelSection parallel;
  parallel.dp = 1;
  parallel.zero_stage = 3;
  EXPECT_EQ(zero_plan(parallel).stage, ZeroStage::Off);
  EXPECT_EQ(zero_plan(parallel).shards, 1);
  parallel.dp = 2;
  parallel.sp = 2;
  EXPECT_EQ(zero_plan(parallel).stage, ZeroStage::Parameters);
  EXPECT_EQ(zero_plan(parallel).shards, 4);
  EXPECT_TRUE(zero_plan(parallel).gradients_leave);
  parallel.zero_reduce = ParallelSection::ZeroReduce::Step;
  EXPECT_FALSE(zero_plan(parallel).gradients_leave);
  parallel.zero_shard_size = 1;
  EXPECT_EQ(zero_plan(parallel).stage, ZeroStage::Off);
}

}  // namespace
}  // namespace tessera
