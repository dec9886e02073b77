// SPDX-License-Identifier: Apache-2.0
#include "framework/optim/loss_scale.h"

#include <gtest/gtest.h>

#include "framework/optim/gradient_norm.h"
#include "framework/optim/optimizer.h"

namespace tessera {
namespace {

TEST(LossScaler, HalvesOnOverflowAndDoublesAfterTheWindow) {
  LossScaler scaler({.type = LossScaleOptions::Type::Dynamic, .initial = 8, .window = 3, .minimum = 1});
  scaler.update(false);
  EXPECT_EQ(scaler.scale(), 4);
  EXPECT_EQ(scaler.state().skipped_in_row, 1);
  for (int i = 0; i < 2; ++i) scaler.update(true);
  EXPECT_EQ(scaler.scale(), 4);
  EXPECT_EQ(scaler.state().skipped_in_row, 0);
  scaler.update(true);
  EXPECT_EQ(scaler.scale(), 8);
  EXPECT_EQ(scaler.state().skipped_total, 1);
}

TEST(LossScaler, AnOverflowRestartsTheWindow) {
  LossScaler scaler({.type = LossScaleOptions::Type::Dynamic, .initial = 8, .window = 2, .minimum = 1});
  scaler.update(true);
  scaler.update(false);
  scaler.update(true);
  EXPECT_EQ(scaler.scale(), 4);
  scaler.update(true);
  EXPECT_EQ(scaler.scale(), 8);
}

TEST(LossScaler, CollapsesBelowItsMinimum) {
  LossScaler scaler({.type = LossScaleOptions::Type::Dynamic, .initial = 2, .window = 2, .minimum = 1});
  scaler.update(false);
  EXPECT_FALSE(scaler.collapsed());
  scaler.update(false);
  EXPECT_TRUE(scaler.collapsed());
}

TEST(LossScaler, StaticAndAbsentScalesStay) {
  for (const auto type : {LossScaleOptions::Type::None, LossScaleOptions::Type::Static}) {
    LossScaler scaler({.type = type, .initial = 64, .window = 1, .minimum = 1});
    const double before = scaler.scale();
    scaler.update(false);
    scaler.update(true);
    EXPECT_EQ(scaler.scale(), before);
    EXPECT_FALSE(scaler.collapsed());
  }
  EXPECT_EQ(LossScaler({}).scale(), 1);
}

TEST(LossScaler, StateContinuesWhereItStopped) {
  const LossScaleOptions options{
      .type = LossScaleOptions::Type::Dynamic, .initial = 16, .window = 5, .minimum = 1};
  LossScaler straight(options), first(options);
  const bool finite[] = {true, false, true, true, false, true, true, true, true, true, true};
  for (int i = 0; i < 11; ++i) straight.update(finite[i]);
  for (int i = 0; i < 4; ++i) first.update(finite[i]);
  LossScaler resumed(options);
  resumed.restore(first.state());
  for (int i = 4; i < 11; ++i) resumed.update(finite[i]);
  EXPECT_EQ(resumed.state(), straight.state());
}

TEST(ClipFactor, BringsTheNormToTheClipAndNotBelow) {
  EXPECT_DOUBLE_EQ(clip_factor(4, 1), 0.25);
  EXPECT_EQ(clip_factor(0.5, 1), 1);
  EXPECT_EQ(clip_factor(0, 1), 1);
  EXPECT_EQ(clip_factor(100, 0), 1);
}

TEST(Matches, StarsStandForAnyCharacters) {
  EXPECT_TRUE(matches("*.bias", "blocks.0.mlp.up.bias"));
  EXPECT_TRUE(matches("blocks.*.mlp.*", "blocks.12.mlp.up.weight"));
  EXPECT_TRUE(matches("*", ""));
  EXPECT_FALSE(matches("blocks.*.mlp", "blocks.12.mlp.up.weight"));
  EXPECT_FALSE(matches("embedding", "embedding.token.weight"));
}

}  // namespace
}  // namespace tessera
