// SPDX-License-Identifier: Apache-2.0
// Element types. F64 exists on the CPU only, for gradient checks; BF16 and F16 are storage types whose
// arithmetic is done in fp32. The conversions round to nearest even and keep NaN and infinity.
#pragma once
#include <bit>
#include <cstdint>
#include <string_view>

#include "framework/base/check.h"

namespace tessera {

enum class DType : uint8_t { F64, F32, BF16, F16, I64, I32, U8 };

int64_t size_of(DType dtype);           // bytes of one element
std::string_view name_of(DType dtype);  // "fp64", "fp32", "bf16", "fp16", "int64", "int32", "uint8"
DType dtype_named(std::string_view name);
bool is_float(DType dtype);

struct BFloat16 {
  uint16_t bits = 0;
  BFloat16() = default;
  explicit BFloat16(float value) {
    const uint32_t u = std::bit_cast<uint32_t>(value);
    if ((u & 0x7fffffffu) > 0x7f800000u) {
      bits = static_cast<uint16_t>((u >> 16) | 0x40u);  // a quiet NaN stays a NaN
    } else {
      bits = static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
    }
  }
  explicit operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
};

struct Float16 {
  uint16_t bits = 0;
  Float16() = default;
  explicit Float16(float value);
  explicit operator float() const;
};

template <class T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, double>)
    return DType::F64;
  else if constexpr (std::is_same_v<T, float>)
    return DType::F32;
  else if constexpr (std::is_same_v<T, BFloat16>)
    return DType::BF16;
  else if constexpr (std::is_same_v<T, Float16>)
    return DType::F16;
  else if constexpr (std::is_same_v<T, int64_t>)
    return DType::I64;
  else if constexpr (std::is_same_v<T, int32_t>)
    return DType::I32;
  else {
    static_assert(std::is_same_v<T, uint8_t>, "not an element type");
    return DType::U8;
  }
}

// Calls f.template operator()<T>() with the C++ type of a floating-point dtype.
template <class F>
decltype(auto) visit_float(DType dtype, F&& f) {
  switch (dtype) {
    case DType::F64:
      return f.template operator()<double>();
    case DType::F32:
      return f.template operator()<float>();
    case DType::BF16:
      return f.template operator()<BFloat16>();
    case DType::F16:
      return f.template operator()<Float16>();
    default:
      break;
  }
  fail(ExitCode::Communication, "expected a floating-point tensor, got {}", name_of(dtype));
}

}  // namespace tessera
