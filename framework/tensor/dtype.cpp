// SPDX-License-Identifier: Apache-2.0
#include "framework/tensor/dtype.h"

#include <array>
#include <utility>

namespace tessera {
namespace {
constexpr std::array<std::pair<DType, std::string_view>, 7> kNames{{{DType::F64, "fp64"},
                                                                    {DType::F32, "fp32"},
                                                                    {DType::BF16, "bf16"},
                                                                    {DType::F16, "fp16"},
                                                                    {DType::I64, "int64"},
                                                                    {DType::I32, "int32"},
                                                                    {DType::U8, "uint8"}}};
}  // namespace

int64_t size_of(DType dtype) {
  switch (dtype) {
    case DType::F64:
    case DType::I64:
      return 8;
    case DType::F32:
    case DType::I32:
      return 4;
    case DType::BF16:
    case DType::F16:
      return 2;
    case DType::U8:
      break;
  }
  return 1;
}

std::string_view name_of(DType dtype) {
  for (const auto& [value, name] : kNames)
    if (value == dtype) return name;
  return "?";
}

DType dtype_named(std::string_view name) {
  for (const auto& [value, text] : kNames)
    if (text == name) return value;
  fail(ExitCode::Data, "unknown element type '{}'", name);
}

bool is_float(DType dtype) {
  return dtype <= DType::F16;
}

Float16::Float16(float value) {
  const uint32_t u = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (u >> 16) & 0x8000u;
  const uint32_t magnitude = u & 0x7fffffffu;
  if (magnitude > 0x7f800000u) {
    bits = static_cast<uint16_t>(sign | 0x7e00u);
  } else if (magnitude >= 0x477ff000u) {  // rounds to 2^16 or more
    bits = static_cast<uint16_t>(sign | 0x7c00u);
  } else if (magnitude < 0x38800000u) {  // subnormal half: let the fp32 adder round to multiples of 2^-24
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    bits = static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000u));
  } else {
    const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
    bits = static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
  }
}

Float16::operator float() const {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1fu;
  const uint32_t mantissa = bits & 0x3ffu;
  if (exponent == 0x1fu) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent == 0) {
    const float value = static_cast<float>(mantissa) * 0x1p-24f;
    return sign ? -value : value;
  }
  return std::bit_cast<float>(sign | ((exponent + 112u) << 23) | (mantissa << 13));
}

}  // namespace tessera
