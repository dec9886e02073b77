// SPDX-License-Identifier: Apache-2.0
#include "framework/nn/rope.h"

#include <gtest/gtest.h>

#include <cmath>

#include "framework/backends/cpu/cpu_backend.h"
#include "framework/ops/memory.h"

namespace tessera {
namespace {

using Scaling = RopeOptions::Scaling;

TEST(Rope, FrequenciesAreAGeometricSeries) {
  const std::vector<double> frequencies = rope_frequencies({.theta = 10000, .rotary_dim = 8});
  ASSERT_EQ(frequencies.size(), 4u);
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(frequencies[i], std::pow(10.0, -static_cast<double>(i)), 1e-15);
  EXPECT_THROW(rope_frequencies({.rotary_dim = 5}), Error);
}

TEST(Rope, LinearStretchesAll) {
  const std::vector<double> plain = rope_frequencies({.rotary_dim = 6});
  const std::vector<double> linear =
      rope_frequencies({.rotary_dim = 6, .scaling = Scaling::Linear, .factor = 4});
  for (size_t i = 0; i < 3; ++i) EXPECT_DOUBLE_EQ(linear[i], plain[i] / 4);
}

// Llama 3.1: factor 8 from a context of 8192. Waves under 2048 positions stay, those over 8192 are stretched.
TEST(Rope, Llama3KeepsShortWavesAndStretchesLongOnes) {
  const RopeOptions plain{.theta = 500000, .rotary_dim = 128};
  RopeOptions scaled = plain;
  scaled.scaling = Scaling::Llama3;
  scaled.factor = 8;
  scaled.original_positions = 8192;
  const std::vector<double> before = rope_frequencies(plain), after = rope_frequencies(scaled);
  int kept = 0, stretched = 0, blended = 0;
  for (size_t i = 0; i < before.size(); ++i) {
    const double wave = 2 * 3.14159265358979323846 / before[i];
    if (wave < 2048) {
      EXPECT_EQ(after[i], before[i]);
      ++kept;
    } else if (wave > 8192) {
      EXPECT_DOUBLE_EQ(after[i], before[i] / 8);
      ++stretched;
    } else {
      EXPECT_LT(after[i], before[i]);
      EXPECT_GT(after[i], before[i] / 8);
      ++blended;
    }
  }
  EXPECT_EQ(kept, 29);
  EXPECT_EQ(blended, 6);
  EXPECT_EQ(stretched, 29);
}

TEST(Rope, YarnRampsBetweenTheTwo) {
  const RopeOptions plain{.theta = 10000, .rotary_dim = 128};
  RopeOptions scaled = plain;
  scaled.scaling = Scaling::Yarn;
  scaled.factor = 4;
  scaled.original_positions = 4096;
  const std::vector<double> before = rope_frequencies(plain), after = rope_frequencies(scaled);
  // The ramp runs from floor(20.94) to ceil(45.03): 128 ln(4096 / (2 pi beta)) / (2 ln 10000) for 32 and 1.
  for (size_t i = 0; i <= 20; ++i) EXPECT_DOUBLE_EQ(after[i], before[i]) << i;
  for (size_t i = 46; i < 64; ++i) EXPECT_DOUBLE_EQ(after[i], before[i] / 4) << i;
  const double ramp = (30.0 - 20.0) / (46.0 - 20.0);
  EXPECT_DOUBLE_EQ(after[30], before[30] * (1 - ramp) + before[30] / 4 * ramp);
}

TEST(Rope, TableHoldsCosinesThenSines) {
  const auto backend = make_cpu_backend(1);
  RopeOptions options{.theta = 100, .rotary_dim = 4, .scaling = Scaling::Yarn, .factor = 1};
  options.original_positions = 8;
  options.attention_factor = 1.5;
  const Tensor table = rope_table(*backend, options, 3, DType::F64);
  EXPECT_EQ(table.shape(), (Shape{3, 4}));
  const std::vector<double> values = to_host<double>(*backend, table);
  const std::vector<double> expected = {1.5, 1.5, 0, 0, 1.5 * std::cos(1.0), 1.5 * std::cos(0.1)};
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(values[i], expected[i], 1e-15) << i;
  EXPECT_NEAR(values[11], 1.5 * std::sin(0.2), 1e-15);
  for (const DType compute : {DType::F32, DType::BF16, DType::F16})
    EXPECT_EQ(rope_table(*backend, options, 3, compute).dtype(), DType::F32);
}

}  // namespace
}  // namespace tessera
