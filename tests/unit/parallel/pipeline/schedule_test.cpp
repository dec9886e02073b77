// SPDX-License-Identifier: Apache-2.0
#include "framework/parallel/pipeline/schedule.h"

#include <gtest/gtest.h>

#include <random>

#include "framework/base/check.h"
#include "framework/parallel/pipeline/passes.h"
#include "framework/parallel/pipeline/validate.h"

namespace tessera {
namespace {

ValidationSizes sizes(int units, std::vector<int> buckets) {
  return {.units_of_stage = {units}, .bucket_first_unit = {std::move(buckets)}};
}

Schedule trained(int microbatches, const ValidationSizes& s) {
  return with_gradient_reduction(with_units(one_stage(microbatches), s.units_of_stage), s.bucket_first_unit);
}

TEST(Schedule, OneStageRunsForwardThenBackwardOfEachMicroBatch) {
  EXPECT_EQ(to_text(one_stage(2)), "0F0 0B0 0F1 0B1\n");
  EXPECT_EQ(to_text(forward_only(3)), "0F0 0F1 0F2\n");
}

TEST(Schedule, UnitsRunForwardInOrderAndBackwardInReverse) {
  EXPECT_EQ(to_text(with_units(one_stage(1), {3})), "0F0.0 0F0.1 0F0.2 0B0.2 0B0.1 0B0.0\n");
}

TEST(Schedule, ABucketIsReducedRightAfterItsLastBackward) {
  const auto s = sizes(3, {1, 0});
  EXPECT_EQ(to_text(trained(2, s)),
            "0F0.0 0F0.1 0F0.2 0B0.2 0B0.1 0B0.0 0F1.0 0F1.1 0F1.2 0B1.2 0B1.1 0R1.0 0B1.0 0R1.1\n");
}

TEST(Schedule, TextReadsBack) {
  const Schedule schedule = trained(3, sizes(5, {4, 2, 0}));
  EXPECT_EQ(to_text(schedule_from_text(to_text(schedule))), to_text(schedule));
  for (const char* bad : {"F0", "0X0", "0F", "0F0.", "0F0.1x", "-1F0", "0F99999999999"})
    EXPECT_THROW(schedule_from_text(bad), Error) << bad;
}

TEST(Schedule, GeneratedSchedulesAreValid) {
  for (int microbatches = 1; microbatches <= 9; ++microbatches)
    for (int units = 1; units <= 7; ++units) {
      const auto s = sizes(units, {units / 2, 0});
      EXPECT_NO_THROW(validate(trained(microbatches, s), s));
      ValidationSizes forwards = s;
      forwards.forward_only = true;
      EXPECT_NO_THROW(validate(with_units(forward_only(microbatches), {units}), forwards));
    }
}

TEST(Schedule, InputAndWeightGradientsMayBeApart) {
  const auto s = sizes(2, {0});
  EXPECT_NO_THROW(validate(schedule_from_text("0F0.0 0F0.1 0I0.1 0I0.0 0W0.0 0W0.1 0R0.0"), s));
  EXPECT_THROW(validate(schedule_from_text("0F0.0 0F0.1 0I0.1 0W0.0 0I0.0 0W0.1 0R0.0"), s), Error);
  EXPECT_THROW(validate(schedule_from_text("0F0.0 0F0.1 0I0.1 0I0.0 0W0.0 0R0.0 0W0.1"), s), Error);
}

// Every single change that breaks a valid list must be found: drop, double, or swap two actions.
TEST(Schedule, BrokenListsAreRefusedWithTheCellMarked) {
  const auto s = sizes(3, {1, 0});
  const Schedule valid = trained(2, s);
  const auto& actions = valid.by_rank[0];
  for (size_t i = 0; i < actions.size(); ++i) {
    Schedule dropped = valid, doubled = valid;
    dropped.by_rank[0].erase(dropped.by_rank[0].begin() + static_cast<ptrdiff_t>(i));
    EXPECT_THROW(validate(dropped, s), Error) << "without " << to_text(actions[i]);
    doubled.by_rank[0].push_back(actions[i]);
    EXPECT_THROW(validate(doubled, s), Error) << "twice " << to_text(actions[i]);
  }
  Schedule early = valid;
  std::swap(early.by_rank[0][0], early.by_rank[0][1]);
  try {
    validate(early, s);
    FAIL() << "a unit ran before the one below";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(">>0F0.1<<"), std::string::npos) << error.what();
  }
}

// A random order is valid exactly when an independent check of the dependencies says so.
TEST(Schedule, RandomOrdersAgreeWithAnIndependentCheck) {
  const auto s = sizes(2, {0});
  const Schedule valid = trained(1, s);
  std::mt19937 random(7);
  int accepted = 0;
  for (int trial = 0; trial < 2000; ++trial) {
    Schedule shuffled = valid;
    auto& list = shuffled.by_rank[0];
    std::shuffle(list.begin(), list.end(), random);
    // With one micro-batch and two units the only valid order is the generated one.
    const bool expected = list == valid.by_rank[0];
    bool ok = true;
    try {
      validate(shuffled, s);
    } catch (const Error&) {
      ok = false;
    }
    EXPECT_EQ(ok, expected) << to_text(shuffled);
    accepted += ok;
  }
  EXPECT_GT(accepted, 0);
}

}  // namespace
}  // namespace tessera
