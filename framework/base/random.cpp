// SPDX-License-Identifier: Apache-2.0
#include "framework/base/random.h"

#include <Random123/philox.h>
#include <xxhash.h>

#include <bit>
#include <cmath>
#include <cstddef>

#include "framework/base/check.h"

namespace tessera {
namespace {

// The high counter word that derives keys; draws count upwards from 0 and never reach it.
constexpr uint64_t kDeriveCounter = ~uint64_t{0};

// Eight rounds make every pair of images of even a three-element set equally likely over keys (a test
// counts them). Only the sign of an order of 5 or more is not free: Feistel rounds are even permutations.
constexpr uint64_t kFeistelRounds = 8;

uint64_t low_word(const std::array<uint32_t, 4>& random) {
  return uint64_t{random[1]} << 32 | random[0];
}

// Coefficients highest power first.
template <size_t N>
double polynomial(const double (&coefficients)[N], double x) {
  double sum = coefficients[0];
  for (size_t i = 1; i < N; ++i) sum = sum * x + coefficients[i];
  return sum;
}

// Natural logarithm of a positive normal number. libm's differs between systems in the last bit; this
// one is a fixed sequence of exactly rounded operations: 2 artanh((m - 1) / (m + 1)) + exponent * ln 2.
double own_log(double x) {
  constexpr double kSqrtHalf = 0.70710678118654752;
  constexpr double kLn2 = 0.69314718055994531;
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  int exponent = static_cast<int>(bits >> 52) - 1022;
  double mantissa = std::bit_cast<double>((bits & 0x000fffffffffffffull) | 0x3fe0000000000000ull);
  if (mantissa < kSqrtHalf) {
    mantissa *= 2;
    --exponent;
  }
  const double s = (mantissa - 1) / (mantissa + 1);
  const double s2 = s * s;
  // |s| < 0.172, so the first term left out is below 1e-18.
  constexpr double kSeries[] = {1.0 / 21, 1.0 / 19, 1.0 / 17, 1.0 / 15, 1.0 / 13, 1.0 / 11,
                                1.0 / 9,  1.0 / 7,  1.0 / 5,  1.0 / 3,  1.0};
  return static_cast<double>(exponent) * kLn2 + 2 * s * polynomial(kSeries, s2);
}

// AS 241, routine PPND16. Its third range begins at p < exp(-25), below the smallest p of 32 bits.
double normal_centre(double q) {
  constexpr double kAbove[] = {2.5090809287301226727e+3, 3.3430575583588128105e+4, 6.7265770927008700853e+4,
                               4.5921953931549871457e+4, 1.3731693765509461125e+4, 1.9715909503065514427e+3,
                               1.3314166789178437745e+2, 3.3871328727963666080e+0};
  constexpr double kBelow[] = {
      5.2264952788528545610e+3, 2.8729085735721942674e+4, 3.9307895800092710610e+4, 2.1213794301586595867e+4,
      5.3941960214247511077e+3, 6.8718700749205790830e+2, 4.2313330701600911252e+1, 1.0};
  const double r = 0.180625 - q * q;
  return q * polynomial(kAbove, r) / polynomial(kBelow, r);
}

double normal_outside(double r) {
  constexpr double kAbove[] = {7.74545014278341407640e-4, 2.27238449892691845833e-2,
                               2.41780725177450611770e-1, 1.27045825245236838258e+0,
                               3.64784832476320460504e+0, 5.76949722146069140550e+0,
                               4.63033784615654529590e+0, 1.42343711074968357734e+0};
  constexpr double kBelow[] = {1.05075007164441684324e-9, 5.47593808499534494600e-4,
                               1.51986665636164571966e-2, 1.48103976427480074590e-1,
                               6.89767334985100004550e-1, 1.67638483018380384940e+0,
                               2.05319162663775882187e+0, 1.0};
  return polynomial(kAbove, r - 1.6) / polynomial(kBelow, r - 1.6);
}

}  // namespace

RandomKey random_key(uint64_t seed, std::string_view purpose) {
  return mixed(RandomKey{seed}, XXH3_64bits(purpose.data(), purpose.size()));
}

RandomKey mixed(RandomKey key, uint64_t salt) {
  return RandomKey{low_word(philox(key, salt, kDeriveCounter))};
}

std::array<uint32_t, 4> philox(RandomKey key, uint64_t low, uint64_t high) {
  const auto half = [](uint64_t word, int shift) { return static_cast<uint32_t>(word >> shift); };
  const r123::Philox4x32::ctr_type counter = {{half(low, 0), half(low, 32), half(high, 0), half(high, 32)}};
  const r123::Philox4x32::key_type words = {{half(key.value, 0), half(key.value, 32)}};
  const auto out = r123::Philox4x32()(counter, words);
  return {out[0], out[1], out[2], out[3]};
}

float normal_from_bits(uint32_t bits) {
  constexpr double kStep = 1.0 / 4294967296.0;
  const double p = (static_cast<double>(bits) + 0.5) * kStep;  // exact, as are q and 1 - p
  const double q = p - 0.5;
  if (std::abs(q) <= 0.425) return static_cast<float>(normal_centre(q));
  const double r = std::sqrt(-own_log(q < 0 ? p : 1.0 - p));
  const double magnitude = normal_outside(r);
  return static_cast<float>(q < 0 ? -magnitude : magnitude);
}

uint64_t permuted(uint64_t index, uint64_t count, RandomKey key) {
  CHECK(index < count, "permuted: index {} is not below count {}", index, count);
  const auto half_bits = static_cast<int>((std::bit_width(count - 1) + 1) / 2);  // 4^half_bits >= count
  const uint64_t mask = (uint64_t{1} << half_bits) - 1;
  uint64_t value = index;
  do {
    uint64_t left = value >> half_bits, right = value & mask;
    for (uint64_t round = 0; round < kFeistelRounds; ++round) {
      const uint64_t next = left ^ (low_word(philox(key, right, round)) & mask);
      left = right;
      right = next;
    }
    value = left << half_bits | right;
  } while (value >= count);
  return value;
}

}  // namespace tessera
