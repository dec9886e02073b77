// SPDX-License-Identifier: Apache-2.0
#include "framework/tensor/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace tessera {
namespace {

template <class H>
H from_bits(uint32_t bits) {
  H half;
  half.bits = static_cast<uint16_t>(bits);
  return half;
}

// Every value of the type survives the way to float and back; a NaN stays a NaN.
template <class H>
void expect_exact_round_trip() {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const float value = static_cast<float>(from_bits<H>(bits));
    const H back(value);
    if (std::isnan(value))
      ASSERT_TRUE(std::isnan(static_cast<float>(back))) << bits;
    else
      ASSERT_EQ(back.bits, bits);
  }
}

// Between two neighbours everything below the middle goes down, everything above up, the middle to even.
template <class H>
void expect_nearest_even(uint32_t last_finite) {
  for (uint32_t bits = 0; bits < last_finite; ++bits) {
    const float low = static_cast<float>(from_bits<H>(bits)),
                high = static_cast<float>(from_bits<H>(bits + 1));
    const double middle = (static_cast<double>(low) + static_cast<double>(high)) / 2;
    const float at = static_cast<float>(middle);
    ASSERT_EQ(static_cast<double>(at), middle);
    ASSERT_EQ(H(at).bits, bits % 2 == 0 ? bits : bits + 1) << low;
    ASSERT_EQ(H(std::nextafter(at, 0.0f)).bits, bits) << low;
    ASSERT_EQ(H(std::nextafter(at, high)).bits, bits + 1) << low;
    ASSERT_EQ(H(-at).bits, H(at).bits | 0x8000u);
  }
}

TEST(BFloat16, keeps_every_value) {
  expect_exact_round_trip<BFloat16>();
}
TEST(Float16, keeps_every_value) {
  expect_exact_round_trip<Float16>();
}
TEST(BFloat16, rounds_to_nearest_even) {
  // From the smallest normal number on: halves of subnormal steps are no floats.
  for (uint32_t bits = 0x0080; bits < 0x7f7f; ++bits) {
    const float low = static_cast<float>(from_bits<BFloat16>(bits));
    const float middle = std::bit_cast<float>(std::bit_cast<uint32_t>(low) + 0x8000u);
    ASSERT_EQ(BFloat16(middle).bits, bits % 2 == 0 ? bits : bits + 1);
    ASSERT_EQ(BFloat16(std::nextafter(middle, 0.0f)).bits, bits);
    ASSERT_EQ(BFloat16(std::nextafter(middle, INFINITY)).bits, bits + 1);
  }
}
TEST(Float16, rounds_to_nearest_even) {
  expect_nearest_even<Float16>(0x7bff);
}

TEST(Float16, overflows_to_infinity) {
  EXPECT_EQ(static_cast<float>(Float16(65519.9f)), 65504);
  EXPECT_EQ(static_cast<float>(Float16(65520.0f)), INFINITY);
  EXPECT_EQ(static_cast<float>(Float16(-1e30f)), -INFINITY);
}

TEST(BFloat16, overflows_to_infinity) {
  EXPECT_EQ(static_cast<float>(BFloat16(std::numeric_limits<float>::max())), INFINITY);
  EXPECT_TRUE(std::isnan(static_cast<float>(BFloat16(std::bit_cast<float>(0x7f800001u)))));
}

TEST(DType, names_read_back) {
  for (const DType dtype :
       {DType::F64, DType::F32, DType::BF16, DType::F16, DType::I64, DType::I32, DType::U8})
    EXPECT_EQ(dtype_named(name_of(dtype)), dtype);
  EXPECT_THROW(dtype_named("fp8"), Error);
}

TEST(DType, a_visit_of_integers_is_refused) {
  EXPECT_EQ(visit_float(DType::F16, []<class T>() { return sizeof(T); }), 2u);
  EXPECT_EQ(visit_float(DType::F64, []<class T>() { return sizeof(T); }), 8u);
  EXPECT_THROW(visit_float(DType::I32, []<class T>() { return sizeof(T); }), Error);
}

}  // namespace
}  // namespace tessera
