// SPDX-License-Identifier: Apache-2.0
#include "framework/train/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>
#include <vector>

#include "framework/base/check.h"

namespace tessera {
namespace {

const std::vector<float> kLogits{0.5f, 3.0f, -1.0f, 3.0f, 2.0f, -std::numeric_limits<float>::infinity(),
                                 1.0f};

std::set<int32_t> drawn(SamplingOptions options) {
  std::set<int32_t> tokens;
  for (int64_t position = 0; position < 3000; ++position) tokens.insert(sample(kLogits, options, position));
  return tokens;
}

TEST(Sample, TemperatureZeroTakesTheFirstOfTheLargest) {
  EXPECT_EQ(sample(kLogits, {.temperature = 0}, 7), 1);
}

TEST(Sample, FrequenciesFollowTheSoftmax) {
  std::vector<int> counts(kLogits.size());
  constexpr int kDraws = 20000;
  for (int64_t position = 0; position < kDraws; ++position)
    ++counts[static_cast<size_t>(sample(kLogits, {.temperature = 2}, position))];
  double total = 0;
  for (const float logit : kLogits) total += std::exp(logit / 2);
  for (size_t i = 0; i < counts.size(); ++i) {
    const double p = std::exp(kLogits[i] / 2) / total;
    // Five standard deviations of a binomial count.
    EXPECT_NEAR(counts[i], kDraws * p, 5 * std::sqrt(kDraws * p * (1 - p)) + 1e-9) << i;
  }
}

TEST(Sample, TopKAndTopPCutTheTail) {
  EXPECT_EQ(drawn({.top_k = 1}), (std::set<int32_t>{1}));
  EXPECT_EQ(drawn({.top_k = 3}), (std::set<int32_t>{1, 3, 4}));
  // The two largest hold 0.77 of the mass, the three largest 0.91.
  EXPECT_EQ(drawn({.top_p = 0.6}), (std::set<int32_t>{1, 3}));
  EXPECT_EQ(drawn({.top_p = 0.8}), (std::set<int32_t>{1, 3, 4}));
  EXPECT_EQ(drawn({.top_p = 0}), (std::set<int32_t>{1}));
}

TEST(Sample, OnlyTokensOfTheVocabularyAreDrawn) {
  EXPECT_EQ(drawn({.temperature = 5, .vocabulary = 3}), (std::set<int32_t>{0, 1, 2}));
  EXPECT_EQ(sample(kLogits, {.temperature = 5, .vocabulary = 1}, 0), 0);
}

TEST(Sample, SeedAndPositionDecide) {
  for (int64_t position = 0; position < 50; ++position)
    EXPECT_EQ(sample(kLogits, {.seed = 9}, position), sample(kLogits, {.seed = 9}, position));
  int differ = 0;
  for (int64_t position = 0; position < 200; ++position)
    differ += sample(kLogits, {.temperature = 3, .seed = 1}, position) !=
              sample(kLogits, {.temperature = 3, .seed = 2}, position);
  EXPECT_GT(differ, 50);
}

TEST(Sample, LogitsThatAreNoNumbersAreAnError) {
  const std::vector<float> broken{0, std::nanf(""), 1};
  EXPECT_THROW(sample(broken, {}, 0), Error);
}

}  // namespace
}  // namespace tessera
