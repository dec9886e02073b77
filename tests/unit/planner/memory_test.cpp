// SPDX-License-Identifier: Apache-2.0
// Parameter counts against published figures, and the choice of recomputed blocks.
#include "framework/planner/memory.h"

#include <gtest/gtest.h>

#include "framework/config/load.h"
#include "framework/config/resolve.h"
#include "models/registry.h"

namespace tessera {
namespace {

ParameterCounts counts_of(const std::string& file) {
  RunConfig config =
      load_config(
          {.file = std::string(TESSERA_SOURCE_DIR) + "/configs/" + file, .overrides = {}, .environment = {}})
          .config;
  config.parallel = {};
  resolve_parallel(config, 1);
  return count_parameters(define_model(config).parameters);
}

TEST(ParameterCounts, AreThePublishedOnes) {
  EXPECT_EQ(counts_of("gpt/gpt2_124m.toml").total, 124'439'808);
  EXPECT_EQ(counts_of("llama/llama3_8b.toml").total, 8'030'261'248);
  const ParameterCounts gpt3 = counts_of("gpt/gpt175b.toml");
  EXPECT_NEAR(static_cast<double>(gpt3.total), 175e9, 0.01 * 175e9);
  // 12 L h^2 in matrices, 13 h a block in biases and norms, the tables, and the last norm.
  const int64_t h = 12288, layers = 96;
  EXPECT_EQ(gpt3.total, layers * (12 * h * h + 13 * h) + (50257 + 2048) * h + 2 * h);
  EXPECT_EQ(gpt3.embedding, (50257 + 2048) * h);
  EXPECT_EQ(gpt3.rest(), gpt3.total - gpt3.embedding);
}

TEST(ParameterCounts, BuffersDoNotCountAndFrozenTensorsAreNotTrained) {
  std::vector<ParameterSpec> specs;
  specs.push_back({.name = "a", .shape = {3, 7}, .role = Role::Matrix, .init = {}, .trainable = false});
  specs.push_back({.name = "b", .shape = {5}, .role = Role::Buffer, .init = {}});
  specs.push_back({.name = "c", .shape = {11, 2}, .role = Role::Embedding, .init = {}});
  const ParameterCounts counts = count_parameters(specs);
  EXPECT_EQ(counts.total, 43);
  EXPECT_EQ(counts.trainable, 22);
  EXPECT_EQ(counts.embedding, 22);
}

TEST(MemoryPlan, TermsAddUpToThePeak) {
  const MemoryPlan plan{.parameters = 1,
                        .masters = 2,
                        .gradients = 4,
                        .optimizer = 8,
                        .constants = 16,
                        .batches = 32,
                        .activations = 64,
                        .workspace = 128,
                        .communication = 256,
                        .snapshot = 512};
  EXPECT_EQ(plan.state(), 31);
  EXPECT_EQ(plan.step_peak(), 511);
  EXPECT_EQ(plan.peak(), 1023);
}

TEST(RecomputedBlocks, AreTheFewestThatFit) {
  for (int blocks : {1, 3, 7, 96}) {
    const auto peak = [&](int n) { return int64_t{1000} * (blocks - n) + 500; };
    for (int wanted = 0; wanted <= blocks; ++wanted) {
      EXPECT_EQ(choose_recomputed_blocks(blocks, peak(wanted), peak), wanted);
      EXPECT_EQ(choose_recomputed_blocks(blocks, peak(wanted) + 999, peak), wanted);
    }
  }
}

TEST(RecomputedBlocks, AskForFewTrials) {
  int trials = 0;
  const auto peak = [&](int n) {
    ++trials;
    return int64_t{96 - n};
  };
  EXPECT_EQ(choose_recomputed_blocks(96, 41, peak), 55);
  EXPECT_LE(trials, 10);
}

TEST(RecomputedBlocks, AnImpossibleBudgetIsAUsageErrorThatNamesTheLeast) {
  const auto peak = [](int n) { return (int64_t{10} - n) << 30; };
  try {
    choose_recomputed_blocks(7, int64_t{2} << 30, peak);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::Usage);
    EXPECT_NE(std::string(error.what()).find("memory_budget_gb = 2 cannot"), std::string::npos)
        << error.what();
    EXPECT_NE(std::string(error.what()).find("needs 3;"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace tessera
