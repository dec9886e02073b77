// SPDX-License-Identifier: Apache-2.0
// What the number of ranks decides: dp, the batch keys, the length of the run.
#include "framework/config/resolve.h"

#include "tests/unit/config/config_text.h"

namespace tessera::config_test {
namespace {

RunConfig resolved(const ConfigText& text, int64_t ranks) {
  RunConfig config = load(text).config;
  resolve_parallel(config, ranks);
  return config;
}

std::string resolve_error(RunConfig config, int64_t ranks) {
  try {
    resolve_parallel(config, ranks);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::Usage);
    return error.what();
  }
  return "no error";
}

TEST(Resolve, DpIsTheRest) {
  EXPECT_EQ(resolved(ConfigText(), 1).parallel.dp, 1);
  EXPECT_EQ(resolved(ConfigText(), 3).parallel.dp, 3);
  EXPECT_EQ(resolved(ConfigText().set("parallel", "dp", "5"), 5).parallel.dp, 5);
  EXPECT_EQ(mesh_ranks(load(ConfigText()).config), 1);
  EXPECT_EQ(mesh_ranks(load(ConfigText().set("parallel", "dp", "5")).config), 5);
}

TEST(Resolve, AMeshThatDoesNotCoverTheRanksIsRefused) {
  RunConfig config = load(ConfigText()).config;
  config.parallel.tp = 2;
  config.parallel.pp = 3;
  EXPECT_EQ(
      resolve_error(config, 16),
      "16 ranks do not divide by parallel.tp * sp * pp = 2 * 1 * 3 = 6 (nearest that work: 12 or 18 ranks)");
  config.parallel.dp = 2;
  EXPECT_EQ(
      resolve_error(config, 18),
      "parallel.tp * sp * dp * pp = 2 * 1 * 2 * 3 = 12, and there are 18 ranks (start 12, or set dp = 3)");
  EXPECT_EQ(
      resolve_error(config, 4),
      "parallel.tp * sp * dp * pp = 2 * 1 * 2 * 3 = 12, and there are 4 ranks (start 12, or set dp = -1)");
  EXPECT_EQ(resolve_error(config, 12), "no error");
  config.parallel.tp = 8;
  EXPECT_EQ(resolve_error(config, 48),
            "model.num_attention_heads = 4 does not divide by parallel.tp = 8 (nearest that work: "
            "num_attention_heads 8, tp 4)");
}

TEST(Resolve, AnyOfTheBatchKeysMayBeLeftOut) {
  struct Case {
    std::string micro, global, accumulation;  // "" is left out
    int64_t ranks, expected_micro, expected_global, expected_accumulation;
  };
  const std::vector<Case> cases = {
      {"2", "7", "", 1, 2, 7, 4},  {"2", "7", "", 3, 2, 7, 2},  {"", "7", "3", 1, 3, 7, 3},
      {"", "9", "4", 1, 3, 9, 4},  {"2", "", "5", 3, 2, 30, 5}, {"1", "1", "", 4, 1, 1, 1},
      {"3", "7", "3", 1, 3, 7, 3}, {"", "2", "4", 1, 1, 2, 4},
  };
  for (const Case& c : cases) {
    ConfigText text;
    text.remove("train", "micro_batch_size").remove("train", "global_batch_size");
    if (!c.micro.empty()) text.set("train", "micro_batch_size", c.micro);
    if (!c.global.empty()) text.set("train", "global_batch_size", c.global);
    if (!c.accumulation.empty()) text.set("train", "gradient_accumulation_steps", c.accumulation);
    const TrainSection train = resolved(text, c.ranks).train;
    EXPECT_EQ(train.micro_batch_size, c.expected_micro) << text.text();
    EXPECT_EQ(train.global_batch_size, c.expected_global) << text.text();
    EXPECT_EQ(train.gradient_accumulation_steps, c.expected_accumulation) << text.text();
    EXPECT_GE(train.micro_batch_size * train.gradient_accumulation_steps * c.ranks, train.global_batch_size);
  }
}

TEST(Resolve, BatchKeysThatContradictAtThisDpAreRefused) {
  const RunConfig config = load(ConfigText().set("train", "gradient_accumulation_steps", "2")).config;
  EXPECT_EQ(resolve_error(config, 2), "no error");
  EXPECT_TRUE(contains(resolve_error(config, 1), "contradict each other at dp = 1"));
}

TEST(Resolve, StepsFollowFromSamplesOrTokens) {
  const auto steps = [](const std::string& key, const std::string& value) {
    const TrainSection train =
        resolved(ConfigText().remove("train", "steps").set("train", key, value), 1).train;
    EXPECT_FALSE(train.samples || train.tokens);
    return train.steps;
  };
  EXPECT_EQ(steps("samples", "7"), 1);
  EXPECT_EQ(steps("samples", "8"), 2);
  EXPECT_EQ(steps("samples", "70"), 10);
  EXPECT_EQ(steps("tokens", "1"), 1);
  EXPECT_EQ(steps("tokens", "231"), 1);  // 7 samples of 33 tokens
  EXPECT_EQ(steps("tokens", "232"), 2);
}

TEST(Resolve, AmountsThatOverflowAreRefused) {
  const std::string most = "1000000000000000000";
  ConfigText text;
  text.remove("train", "steps").set("train", "tokens", most);
  EXPECT_TRUE(contains(resolve_error(load(text).config, 1), "is too long"));
  text = ConfigText().set("train", "steps", "1000000000").set("train", "global_batch_size", "1073741824");
  text.set("train", "seq_length", "1073741824").set("train", "micro_batch_size", "1073741824");
  EXPECT_TRUE(contains(resolve_error(load(text).config, 1), "is too long"));
  text = ConfigText().remove("train", "global_batch_size").set("train", "micro_batch_size", "1073741824");
  text.set("train", "gradient_accumulation_steps", "1073741824");
  EXPECT_TRUE(contains(resolve_error(load(text).config, 1), "is a batch of more than 1073741824 samples"));
}

TEST(Resolve, TheDecayEndsWithTheRunUnlessItIsSet) {
  EXPECT_EQ(resolved(ConfigText(), 1).lr_schedule.decay_steps, 20);
  EXPECT_EQ(resolved(ConfigText().set("lr_schedule", "decay_steps", "15"), 1).lr_schedule.decay_steps, 15);
  // A short try of a long run: the warm-up goes on beyond its end.
  EXPECT_EQ(resolved(ConfigText().set("lr_schedule", "warmup_steps", "50"), 1).lr_schedule.decay_steps, 50);
}

TEST(Resolve, TwiceIsOnce) {
  RunConfig config = resolved(ConfigText().remove("train", "steps").set("train", "tokens", "10000"), 3);
  const RunConfig once = config;
  resolve_parallel(config, 3);
  EXPECT_TRUE(differences(once, config).empty());
}

}  // namespace
}  // namespace tessera::config_test
