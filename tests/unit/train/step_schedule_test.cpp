// SPDX-License-Identifier: Apache-2.0
#include "framework/train/step_schedule.h"

#include <gtest/gtest.h>

#include "framework/config/resolve.h"
#include "framework/parallel/pipeline/generate.h"

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
