// SPDX-License-Identifier: Apache-2.0
#include "framework/parallel/pipeline/passes.h"

#include <gtest/gtest.h>

#include "framework/base/check.h"
#include "framework/parallel/pipeline/validate.h"

namespace tessera {
namespace {

TEST(Passes, AReceiveStandsBeforeTheWorkDuringWhichItsMessageIsMade) {
  const Schedule order = schedule_from_text(
      "0F0 0F1 0B0 0B1\n"
      "1F0 1B0 1F1 1B1\n");
  EXPECT_EQ(to_text(with_messages(order)),
            "0F0 0SA0 0F1 0SA1 0RG0 0B0 0RG1 0B1\n"
            "1RA0 1RA1 1F0 1B0 1SG0 1F1 1B1 1SG1\n");
}

TEST(Passes, StagesOfOneRankHandOverWithoutMessages) {
  const Schedule order = schedule_from_text("0F0 3F0 3B0 0B0\n1F0 2F0 2B0 1B0\n");
  EXPECT_EQ(to_text(with_messages(order)),
            "0F0 0SA0 3RA0 3F0 3B0 3SG0 0RG0 0B0\n"
            "1RA0 1F0 2F0 2SA0 2RG0 2B0 1B0 1SG0\n");
}

TEST(Passes, MessagesOfForwardsAlone) {
  EXPECT_EQ(to_text(with_messages(schedule_from_text("0F0 0F1\n1F0 1F1\n"))),
            "0F0 0SA0 0F1 0SA1\n1RA0 1RA1 1F0 1F1\n");
}

TEST(Passes, MessagesCannotBePlacedInListsThatWaitForEachOther) {
  EXPECT_THROW(with_messages(schedule_from_text("0F0 0B1 0F1 0B0\n1F0 1F1 1B0 1B1\n")), Error);
  EXPECT_THROW(with_messages(schedule_from_text("0F0.0 0B0.0\n1F0.0 1B0.0\n")), Error);
  EXPECT_THROW(with_messages(with_messages(schedule_from_text("0F0 0B0\n1F0 1B0\n"))), Error);
}

TEST(Passes, RecomputationRunsAForwardAgainBeforeItsBackward) {
  const Schedule order = schedule_from_text("0F0 1F0 1I0 1W0 0B0\n");
  const Schedule recomputed = with_recomputation(order, {true, false});
  EXPECT_EQ(to_text(recomputed), "0K0 1F0 1I0 1W0 0C0 0B0\n");
  EXPECT_EQ(to_text(with_recomputation(order, {true, true})), "0K0 1K0 1C0 1I0 1W0 0C0 0B0\n");
  EXPECT_EQ(to_text(with_units(recomputed, {2, 1})),
            "0K0.0 0K0.1 1F0.0 1I0.0 1W0.0 0C0.0 0C0.1 0B0.1 0B0.0\n");
  EXPECT_NO_THROW(validate(with_units(recomputed, {2, 1}), {.units_of_stage = {2, 1}}));
}

TEST(Passes, UnitsLeaveMessagesWhole) {
  const Schedule order = schedule_from_text("0F0 0SA0 0RG0 0B0\n1RA0 1F0 1B0 1SG0\n");
  EXPECT_EQ(to_text(with_units(order, {2, 2})),
            "0F0.0 0F0.1 0SA0 0RG0 0B0.1 0B0.0\n"
            "1RA0 1F0.0 1F0.1 1B0.1 1B0.0 1SG0\n");
}

TEST(Passes, NothingComesBetweenTwoThatRunTogether) {
  const Schedule order =
      schedule_from_text("0F0 3F0 0F1 +3B0 3F1 +0B0 3B1 0B1\n1F0 2F0 2B0 1B0 1F1 2F1 2B1 1B1\n");
  EXPECT_EQ(to_text(with_messages(order)),
            "0F0 0SA0 3RA0 3F0 0F1 +3B0 0SA1 3SG0 0RG0 3RA1 3F1 +0B0 3B1 3SG1 0RG1 0B1\n"
            "1RA0 1F0 2F0 2SA0 1RA1 2RG0 2B0 1B0 1SG0 1F1 2F1 2SA1 2RG1 2B1 1B1 1SG1\n");
  const Schedule pair = schedule_from_text("0F0 0F1 +0B0 0B1");
  EXPECT_EQ(to_text(with_recomputation(pair, {true})), "0K0 0C0 0K1 +0B0 0C1 0B1\n");
  EXPECT_EQ(to_text(one_by_one(pair)), "0F0 0F1 0B0 0B1\n");
  EXPECT_EQ(to_text(with_units(pair, {2})), "0F0.0 0F0.1 0F1.0 +0B0.1 0F1.1 +0B0.0 0B1.1 0B1.0\n");
}

TEST(Passes, UnitsOfUnequalStagesRunTogetherAsLongAsBothHaveSome) {
  const Schedule order = schedule_from_text("0F1 +1B0");
  EXPECT_EQ(to_text(with_units(order, {3, 1})), "0F1.0 +1B0.0 0F1.1 0F1.2\n");
  EXPECT_EQ(to_text(with_units(order, {1, 3})), "0F1.0 +1B0.2 1B0.1 1B0.0\n");
}

TEST(Passes, UnitsThatRunTogetherAreGatheredBeforeBoth) {
  const Schedule order = with_units(schedule_from_text("0F0 0F1 +0B0 0B1"), {2});
  EXPECT_EQ(to_text(with_parameter_gathers(order, 1)),
            "0G0.0 0G0.1 0F0.0 0F0.1 0F1.0 +0B0.1 0F1.1 +0B0.0 0B1.1 0D1.1 0B1.0 0D1.0\n");
  EXPECT_THROW(with_parameter_gathers(order, 0), Error);
}

TEST(Passes, WhatAForwardLeavesIsAwayWhereThreePiecesOfWorkLieBetween) {
  // Behind the send, ahead of one piece of work; not where only two lie between.
  const Schedule order = schedule_from_text("0F0 0SA0 0F1 0SA1 0F2 0SA2 0RG0 0B0 0RG1 0B1 0RG2 0B2\n");
  EXPECT_EQ(to_text(with_offload(order)), to_text(order));
  EXPECT_EQ(to_text(with_offload(order, 2)),
            "0F0 0SA0 0O0 0F1 0SA1 0O1 0L0 0F2 0SA2 0O2 0RG0 0L1 0B0 0RG1 0L2 0B1 0RG2 0B2\n");
  EXPECT_EQ(to_text(with_offload(with_units(one_stage(1), {4}))),
            "0F0.0 0O0.0 0F0.1 0O0.1 0F0.2 0F0.3 0B0.3 0L0.1 0B0.2 0L0.0 0B0.1 0B0.0\n");
  // What runs again needs what it kept at its second forward.
  EXPECT_EQ(to_text(with_offload(
                with_recomputation(schedule_from_text("0F0 0F1 0F2 0F3 0B0 0B1 0B2 0B3"), {true}))),
            "0K0 0O0 0K1 0O1 0K2 0O2 0L0 0K3 0O3 0C0 0L1 0B0 0C1 0L2 0B1 0C2 0L3 0B2 0C3 0B3\n");
  // Two that run together are one piece, and nothing comes between them.
  const Schedule pairs = schedule_from_text("0F0 0F1 +2B5 0F2 +2B6 0B0 0B1 0B2");
  EXPECT_EQ(to_text(with_offload(pairs)), to_text(pairs));
  EXPECT_EQ(to_text(with_offload(pairs, 2)), "0F0 0O0 0F1 +2B5 0O1 0L0 0F2 +2B6 0O2 0L1 0B0 0L2 0B1 0B2\n");
  EXPECT_THROW(with_offload(order, 1), Error);
}

TEST(Passes, TransfersOfAStageBecomeThoseOfItsUnits) {
  EXPECT_EQ(to_text(with_units(schedule_from_text("0F0 0O0 0F1 0L0 0B1 0B0\n"), {2})),
            "0F0.0 0F0.1 0O0.0 0O0.1 0F1.0 0F1.1 0L0.1 0L0.0 0B1.1 0B1.0 0B0.1 0B0.0\n");
}

TEST(Passes, ParametersAreGatheredAheadAndNoMoreThanAllowed) {
  const Schedule order = with_units(one_stage(1), {3});
  EXPECT_EQ(
      to_text(with_parameter_gathers(order, 0)),
      "0G0.0 0F0.0 0D0.0 0G0.1 0F0.1 0D0.1 0G0.2 0F0.2 0B0.2 0D0.2 0G0.1 0B0.1 0D0.1 0G0.0 0B0.0 0D0.0\n");
  EXPECT_EQ(to_text(with_parameter_gathers(order, 1)),
            "0G0.0 0G0.1 0F0.0 0D0.0 0G0.2 0F0.1 0F0.2 0B0.2 0D0.2 0G0.0 0B0.1 0D0.1 0B0.0 0D0.0\n");
  for (int prefetch : {0, 1, 2, 5}) {
    const Schedule gathered = with_parameter_gathers(with_units(one_stage(3), {4}), prefetch);
    EXPECT_NO_THROW(validate(gathered, {.units_of_stage = {4}, .gathered_units = 1 + prefetch}));
    if (prefetch > 0 && prefetch < 4) {
      EXPECT_THROW(validate(gathered, {.units_of_stage = {4}, .gathered_units = prefetch}), Error);
    }
  }
}

TEST(Passes, WeightGradientsNeedParametersToo) {
  const Schedule order = schedule_from_text("0F0.0 0F0.1 0I0.1 0I0.0 0W0.1 0W0.0");
  EXPECT_EQ(to_text(with_parameter_gathers(order, 0)),
            "0G0.0 0F0.0 0D0.0 0G0.1 0F0.1 0I0.1 0D0.1 0G0.0 0I0.0 0D0.0 0G0.1 0W0.1 0D0.1 0G0.0 0W0.0 "
            "0D0.0\n");
}

TEST(Passes, ABucketMayBeReducedInEveryMicroBatch) {
  const Schedule order = schedule_from_text("0F0.0 0F0.1 0B0.1 0B0.0 0F1.0 0F1.1 0I1.1 0I1.0 0W1.1 0W1.0");
  const Schedule reduced = with_gradient_reduction(order, {{1, 0}}, {}, Reductions::EveryMicrobatch);
  EXPECT_EQ(to_text(reduced),
            "0F0.0 0F0.1 0B0.1 0R0.0 0B0.0 0R0.1 0F1.0 0F1.1 0I1.1 0I1.0 0W1.1 0R1.0 0W1.0 0R1.1\n");
  const ValidationSizes every{
      .units_of_stage = {2}, .bucket_first_unit = {{1, 0}}, .reductions = Reductions::EveryMicrobatch};
  EXPECT_NO_THROW(validate(reduced, every));
  EXPECT_THROW(validate(with_gradient_reduction(order, {{1, 0}}), every), Error);
  EXPECT_THROW(validate(reduced, {.units_of_stage = {2}, .bucket_first_unit = {{1, 0}}}), Error);
}

// The last weight gradient of a unit counts, wherever it stands.
TEST(Passes, ABucketIsReducedAfterTheLastWeightGradientOfItsFirstUnit) {
  const Schedule order = schedule_from_text("0F0.0 0F0.1 0F1.0 0F1.1 0I0.1 0I0.0 0B1.1 0B1.0 0W0.1 0W0.0");
  EXPECT_EQ(to_text(with_gradient_reduction(order, {{1, 0}})),
            "0F0.0 0F0.1 0F1.0 0F1.1 0I0.1 0I0.0 0B1.1 0B1.0 0W0.1 0R1.0 0W0.0 0R1.1\n");
}

TEST(Passes, ATiedBucketIsReducedOnceOnEachRankThatAddsToIt) {
  const std::vector<TiedBucket> tied = {{{0, 0}, {1, 0}}};
  const Schedule apart = schedule_from_text("0F0 0B0\n1F0 1B0\n");
  EXPECT_EQ(to_text(with_gradient_reduction(apart, {{}, {}}, tied)), "0F0 0B0 0T0.0\n1F0 1B0 1T0.0\n");
  const Schedule together = schedule_from_text("0F0 1F0 1B0 0B0\n");
  EXPECT_EQ(to_text(with_gradient_reduction(together, {{0}, {0}}, tied)),
            "0F0 1F0 1B0 1R0.0 0B0 0R0.0 0T0.0\n");
}

TEST(Passes, TiedBucketsAreReducedInOneOrder) {
  const ValidationSizes sizes{
      .units_of_stage = {1, 1}, .tied = {{{0, 0}, {1, 0}}, {{0, 0}, {1, 0}}}, .messages = false};
  EXPECT_NO_THROW(validate(schedule_from_text("0F0 0B0 0T0.0 0T0.1\n1F0 1B0 1T0.0 1T0.1\n"), sizes));
  EXPECT_THROW(validate(schedule_from_text("0F0 0B0 0T0.0 0T0.1\n1F0 1B0 1T0.1 1T0.0\n"), sizes), Error);
  EXPECT_THROW(validate(schedule_from_text("0F0 0B0 0T0.0 0T0.1\n1F0 1B0 1T0.0\n"), sizes), Error);
}

}  // namespace
}  // namespace tessera
