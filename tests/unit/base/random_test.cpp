// SPDX-License-Identifier: Apache-2.0
#include "framework/base/random.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "framework/base/check.h"

namespace tessera {
namespace {

using Words = std::array<uint32_t, 4>;

// Known answers of Random123 1.14 (kat_vectors, "philox4x32 10").
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox(RandomKey{0}, 0, 0), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const uint64_t ones = ~uint64_t{0};
  EXPECT_EQ(philox(RandomKey{ones}, ones, ones), (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox(RandomKey{0x299f31d0a4093822}, 0x85a308d3243f6a88, 0x0370734413198a2e),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, EveryInputMatters) {
  const Words base = philox(RandomKey{7}, 11, 13);
  EXPECT_NE(philox(RandomKey{8}, 11, 13), base);
  EXPECT_NE(philox(RandomKey{7 + (uint64_t{1} << 32)}, 11, 13), base);
  EXPECT_NE(philox(RandomKey{7}, 11 + (uint64_t{1} << 32), 13), base);
  EXPECT_NE(philox(RandomKey{7}, 11, 13 + (uint64_t{1} << 32)), base);
}

TEST(RandomKeys, DifferByPurposeSeedAndSalt) {
  std::set<uint64_t> keys;
  for (uint64_t seed : {0, 1, 2, 1234}) {
    for (const char* purpose : {"", "init", "init ", "dropout", "order"}) {
      const RandomKey key = random_key(seed, purpose);
      keys.insert(key.value);
      for (uint64_t salt : {0, 1, 7}) keys.insert(mixed(key, salt).value);
    }
  }
  EXPECT_EQ(keys.size(), 4u * 5u * 4u);
}

// A changed key derivation would move every initial weight and sample order of old runs.
TEST(RandomKeys, StayAsTheyAre) {
  EXPECT_EQ(random_key(1234, "init").value, 8315121588710651175u);
  EXPECT_EQ(mixed(RandomKey{1}, 2).value, 15954754515190563009u);
}

struct NormalCase {
  uint32_t bits;
  double value;
};

// Python 3.11: statistics.NormalDist().inv_cdf((bits + 0.5) / 2**32).
constexpr NormalCase kNormalCases[] = {
    {0x00000000, -6.3379577545537886},     {0x00000001, -6.1664295178197488},
    {0x00000002, -6.0851045457830315},     {0x00000003, -6.0309670191182505},
    {0x000003e8, -5.0398511259687107},     {0x0001e240, -4.0228876958084179},
    {0x01000000, -2.6600674585799715},     {0x10000000, -1.5341205434059566},
    {0x13333333, -1.4395314704450153},     {0x13333334, -1.4395314688002132},
    {0x1fffffff, -1.1503493809415331},     {0x40000000, -0.67448974982973842},
    {0x7fffffff, -2.9180993729166234e-10}, {0x80000000, 2.9180993729166234e-10},
    {0xc0000001, 0.67448975129511168},     {0xeccccccc, 1.4395314704450153},
    {0xeccccccd, 1.4395314720898171},      {0xfffffffe, 6.1664295178197488},
    {0xffffffff, 6.3379577545537886},      {0xbb40e64d, 0.61723168289086117},
};

TEST(Normal, MatchesTheInverseDistributionFunction) {
  for (const auto& [bits, value] : kNormalCases) {
    EXPECT_EQ(normal_from_bits(bits), static_cast<float>(value)) << "bits " << bits;
  }
}

// The distribution function by erfc is an independent way back to p.
TEST(Normal, InvertsTheDistributionFunction) {
  for (uint64_t i = 0; i < 10007; ++i) {
    const auto bits = static_cast<uint32_t>(i * 429467u + 1003);
    const double p = (bits + 0.5) / 4294967296.0;
    const double x = normal_from_bits(bits);
    const double density = std::exp(-x * x / 2) / std::sqrt(2 * std::acos(-1.0));
    // Half an ulp of the float result, seen through the slope of the distribution function.
    const double rounding = density * std::abs(x) * 0x1p-24 + 1e-15;
    EXPECT_NEAR(std::erfc(-x / std::sqrt(2.0)) / 2, p, 1.01 * rounding) << "bits " << bits;
  }
}

TEST(Normal, IsOddAndIncreasing) {
  float previous = normal_from_bits(0);
  for (uint64_t i = 1; i < 4096; ++i) {
    const auto bits = static_cast<uint32_t>(i << 20);
    const float value = normal_from_bits(bits);
    EXPECT_GT(value, previous);
    EXPECT_EQ(normal_from_bits(~bits), -value);
    previous = value;
  }
}

TEST(Normal, Moments) {
  constexpr int kCount = 1 << 18;
  double sum = 0, squares = 0, cubes = 0, fourths = 0;
  for (uint64_t i = 0; i < kCount / 4; ++i) {
    for (const uint32_t bits : philox(random_key(3, "moments"), i)) {
      const double x = normal_from_bits(bits);
      sum += x;
      squares += x * x;
      cubes += x * x * x;
      fourths += x * x * x * x;
    }
  }
  // Five standard errors of each mean: variances 1, 2, 15 and 96.
  const double error = 5 / std::sqrt(double{kCount});
  EXPECT_NEAR(sum / kCount, 0, error);
  EXPECT_NEAR(squares / kCount, 1, error * std::sqrt(2.0));
  EXPECT_NEAR(cubes / kCount, 0, error * std::sqrt(15.0));
  EXPECT_NEAR(fourths / kCount, 3, error * std::sqrt(96.0));
}

TEST(Permuted, IsABijection) {
  for (uint64_t count = 1; count <= 300; ++count) {
    std::vector<bool> seen(count);
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t to = permuted(i, count, RandomKey{count});
      ASSERT_LT(to, count);
      ASSERT_FALSE(seen[to]) << "count " << count << " index " << i;
      seen[to] = true;
    }
  }
}

TEST(Permuted, LargeCountsStayInsideWithoutRepeats) {
  for (const uint64_t count :
       {uint64_t{1000000000}, (uint64_t{1} << 32) + 1, (uint64_t{1} << 62) + 3, ~uint64_t{0}}) {
    std::set<uint64_t> seen;
    for (uint64_t i = 0; i < 1003; ++i) {
      const uint64_t to = permuted(i * (count / 1003), count, RandomKey{5});
      EXPECT_LT(to, count);
      EXPECT_TRUE(seen.insert(to).second);
    }
    // Spread over the whole range, not a corner of it.
    EXPECT_LT(*seen.begin(), count / 50);
    EXPECT_GT(*seen.rbegin(), count - count / 50);
  }
}

// Over keys, every pair of images of the first and the last index must come up equally often.
TEST(Permuted, PairsAreUniformOverKeys) {
  for (const uint64_t count : {2, 3, 4, 5, 7, 16, 17}) {
    std::map<std::pair<uint64_t, uint64_t>, int> frequency;
    const int pairs = static_cast<int>(count * (count - 1));
    for (int draw = 0; draw < 200 * pairs; ++draw) {
      const RandomKey key = mixed(RandomKey{9}, static_cast<uint64_t>(draw));
      ++frequency[{permuted(0, count, key), permuted(count - 1, count, key)}];
    }
    ASSERT_EQ(frequency.size(), static_cast<size_t>(pairs)) << "count " << count;
    double chi_square = 0;
    for (const auto& [pair, seen] : frequency) chi_square += (seen - 200.0) * (seen - 200.0) / 200.0;
    const double freedom = pairs - 1;
    EXPECT_LT(chi_square, freedom + 4 * std::sqrt(2 * freedom)) << "count " << count;
  }
}

TEST(Permuted, KeysGiveDifferentOrders) {
  int equal = 0;
  for (uint64_t i = 0; i < 1003; ++i)
    equal += permuted(i, 1003, RandomKey{1}) == permuted(i, 1003, RandomKey{2});
  EXPECT_LT(equal, 12);  // one is expected
}

TEST(Permuted, RefusesAnIndexOutside) {
  EXPECT_THROW(permuted(3, 3, RandomKey{1}), Error);
  EXPECT_THROW(permuted(0, 0, RandomKey{1}), Error);
}

}  // namespace
}  // namespace tessera
