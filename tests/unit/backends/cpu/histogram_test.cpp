// SPDX-License-Identifier: Apache-2.0
// The limits of histogram buckets and the values beside them, in every type that has such values.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "framework/backends/cpu/cpu_backend.h"
#include "framework/ops/memory.h"
#include "framework/ops/reduce.h"

namespace tessera {
namespace {

template <class T>
int bucket_of_value(T value) {
  static const auto backend = make_cpu_backend(1);
  const Tensor counts = zeros(*backend, DType::I64, {HistogramBuckets::kCount});
  histogram(*backend, from_host<T>(*backend, std::span<const T>(&value, 1), {1}), counts,
            zeros(*backend, DType::F64, {1}));
  const auto found = to_host<int64_t>(*backend, counts);
  EXPECT_EQ(std::accumulate(found.begin(), found.end(), int64_t{0}), 1);
  return static_cast<int>(std::find(found.begin(), found.end(), 1) - found.begin());
}

TEST(HistogramLimits, RiseByQuartersOfOctavesOnBothSides) {
  constexpr int kMiddle = HistogramBuckets::kEachSide;
  EXPECT_EQ(histogram_limit(kMiddle), std::ldexp(1, HistogramBuckets::kFirst));
  EXPECT_EQ(histogram_limit(kMiddle + 1), std::ldexp(1.25, HistogramBuckets::kFirst));
  EXPECT_EQ(histogram_limit(HistogramBuckets::kCount - 1), std::ldexp(1, HistogramBuckets::kLast));
  for (int bucket = 0; bucket < HistogramBuckets::kCount; ++bucket) {
    EXPECT_LT(histogram_limit(bucket - 1), histogram_limit(bucket));
    EXPECT_EQ(histogram_limit(bucket - 1), -histogram_limit(HistogramBuckets::kCount - 1 - bucket));
  }
}

template <class T>
void expect_buckets_end_at_their_limits() {
  constexpr int kMiddle = HistogramBuckets::kEachSide;
  for (int bucket = kMiddle; bucket + 1 < HistogramBuckets::kCount; ++bucket) {
    const T limit = static_cast<T>(histogram_limit(bucket)), below = std::nextafter(limit, T(0));
    EXPECT_EQ(bucket_of_value(below), bucket);
    EXPECT_EQ(bucket_of_value(limit), bucket + 1);
    EXPECT_EQ(bucket_of_value(-below), 2 * kMiddle - bucket);
    EXPECT_EQ(bucket_of_value(-limit), 2 * kMiddle - bucket - 1);
  }
  using Limits = std::numeric_limits<T>;
  for (const T tiny : {T(0), Limits::denorm_min(), Limits::min()}) {
    EXPECT_EQ(bucket_of_value(tiny), kMiddle);
    EXPECT_EQ(bucket_of_value(-tiny), kMiddle);
  }
  for (const T large : {T(1 << HistogramBuckets::kLast), Limits::max(), Limits::infinity()}) {
    EXPECT_EQ(bucket_of_value(large), HistogramBuckets::kCount - 1);
    EXPECT_EQ(bucket_of_value(-large), 0);
  }
  const int of_nan = bucket_of_value(Limits::quiet_NaN());
  EXPECT_TRUE(of_nan == 0 || of_nan == HistogramBuckets::kCount - 1);
}

TEST(HistogramBucket, EndsAtItsLimit) {
  expect_buckets_end_at_their_limits<float>();
  expect_buckets_end_at_their_limits<double>();
}

}  // namespace
}  // namespace tessera
