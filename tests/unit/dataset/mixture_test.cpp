// SPDX-License-Identifier: Apache-2.0
#include "framework/dataset/mixture.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "framework/base/random.h"
#include "tests/unit/dataset/scratch.h"

namespace tessera {
namespace {

using test::message_of;

// Tijdeman's bound for k sources with a share is 1 - 1 / (2k - 2).
void expect_shares(const std::vector<double>& weights, int64_t samples) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  Mixture mixture(weights);
  double worst = 0;
  int64_t sources = 0;
  for (const double weight : weights) sources += weight > 0;
  for (int64_t n = 1; n <= samples; ++n) {
    mixture.next();
    for (size_t i = 0; i < weights.size(); ++i) {
      const double ideal = static_cast<double>(n) * weights[i] / sum;
      worst = std::max(worst, std::abs(static_cast<double>(mixture.taken()[i]) - ideal));
    }
  }
  const double bound = sources > 1 ? 1 - 1 / (2.0 * static_cast<double>(sources) - 2) : 0;
  EXPECT_LE(worst, bound + 1e-6) << testing::PrintToString(weights);
}

TEST(Mixture, KeepsSharesAtEveryPrefix) {
  expect_shares({0.001, 0.999}, 100000);
  expect_shares({0, 1}, 100000);
  expect_shares({1e-9, 1}, 100000);
  expect_shares({3, 1}, 100000);
  expect_shares({7}, 1003);
  expect_shares({1, 1, 1}, 100000);
  expect_shares({0.5, 0.3, 0.15, 0.05, 0}, 100000);
}

TEST(Mixture, KeepsSharesOfAnyWeights) {
  for (uint64_t trial = 0; trial < 100; ++trial) {
    std::vector<double> weights;
    const auto draw = [&](uint64_t i) { return philox(RandomKey{trial}, i)[0] / 4294967296.0; };
    const auto sources = static_cast<size_t>(2 + draw(1000) * 12);
    for (uint64_t i = 0; i < sources; ++i)  // flat, geometric, or golden (worst for halving schemes)
      weights.push_back(trial % 3 == 0 ? draw(i) + 1e-3
                                       : std::pow(trial % 3 == 1 ? 0.5 + draw(1001) / 2 : 0.618, double(i)));
    expect_shares(weights, 3001);
  }
}

TEST(Mixture, ASourceWithoutWeightIsNeverChosen) {
  Mixture mixture(std::vector<double>{0.0, 2.0, 0.0, 1.0});
  for (int i = 0; i < 1003; ++i) EXPECT_EQ(mixture.next() % 2, 1u);
}

TEST(Mixture, WeightsAreRelative) {
  Mixture a(std::vector<double>{3, 1}), b(std::vector<double>{0.75, 0.25});
  for (int i = 0; i < 1003; ++i) EXPECT_EQ(a.next(), b.next());
  EXPECT_DOUBLE_EQ(a.share(0), 0.75);
}

TEST(Mixture, AStateGoesOnAsIfItHadNotStopped) {
  const std::vector<double> weights = {0.5, 0.3, 0.1999, 0.0001};
  Mixture straight(weights);
  for (int i = 0; i < 1003; ++i) {
    Mixture resumed(weights, straight.taken());
    EXPECT_EQ(resumed.position(), straight.position());
    Mixture again = straight;
    for (int j = 0; j < 7; ++j) ASSERT_EQ(resumed.next(), again.next());
    straight.next();
  }
}

TEST(Mixture, GoesOnAtAnyDepth) {
  const std::vector<double> weights = {3, 1};
  Mixture deep(weights, std::vector<int64_t>{int64_t{3} << 50, int64_t{1} << 50});
  Mixture fresh(weights);
  for (int i = 0; i < 103; ++i) EXPECT_EQ(deep.next(), fresh.next());
}

TEST(Mixture, RefusesWeightsAndStatesThatCannotBe) {
  const auto make = [](std::vector<double> weights) { return [weights] { Mixture mixture(weights); }; };
  message_of(ExitCode::Usage, make({}));
  message_of(ExitCode::Usage, make({0, 0}));
  message_of(ExitCode::Usage, make({1, -0.5}));
  message_of(ExitCode::Usage, make({1, NAN}));
  message_of(ExitCode::Usage, make({1, INFINITY}));
  const std::vector<double> weights = {3, 1};
  const auto state = [&](std::vector<int64_t> taken) {
    return [&, taken] { Mixture mixture(weights, taken); };
  };
  message_of(ExitCode::Data, state({75, 27}));
  message_of(ExitCode::Data, state({-1, 1}));
  message_of(ExitCode::Data, state({1}));
  message_of(ExitCode::Data, state({INT64_MAX, INT64_MAX}));
}

}  // namespace
}  // namespace tessera
