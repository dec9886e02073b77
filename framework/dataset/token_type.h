// SPDX-License-Identifier: Apache-2.0
// The integer types that a .bin file may hold, by their codes in the .idx header.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

namespace tessera {

enum class TokenType : uint8_t { U8 = 1, I8 = 2, I16 = 3, I32 = 4, I64 = 5, U16 = 8 };

constexpr std::optional<TokenType> token_type_of_code(uint8_t code) {
  if ((code >= 1 && code <= 5) || code == 8) return static_cast<TokenType>(code);
  return std::nullopt;  // 6 and 7 are floating-point
}

constexpr int64_t size_of(TokenType type) {
  switch (type) {
    case TokenType::U8:
    case TokenType::I8:
      return 1;
    case TokenType::I16:
    case TokenType::U16:
      return 2;
    case TokenType::I32:
      return 4;
    case TokenType::I64:
      break;
  }
  return 8;
}

constexpr std::string_view name_of(TokenType type) {
  switch (type) {
    case TokenType::U8:
      return "uint8";
    case TokenType::I8:
      return "int8";
    case TokenType::I16:
      return "int16";
    case TokenType::U16:
      return "uint16";
    case TokenType::I32:
      return "int32";
    case TokenType::I64:
      break;
  }
  return "int64";
}

// The type that Megatron's writer picks for a vocabulary.
constexpr TokenType token_type_for(int64_t vocab_size) {
  return vocab_size < 65500 ? TokenType::U16 : TokenType::I32;
}

// Calls f.template operator()<T>() with the C++ type.
template <class F>
decltype(auto) visit_token_type(TokenType type, F&& f) {
  switch (type) {
    case TokenType::U8:
      return f.template operator()<uint8_t>();
    case TokenType::I8:
      return f.template operator()<int8_t>();
    case TokenType::I16:
      return f.template operator()<int16_t>();
    case TokenType::U16:
      return f.template operator()<uint16_t>();
    case TokenType::I32:
      return f.template operator()<int32_t>();
    case TokenType::I64:
      break;
  }
  return f.template operator()<int64_t>();
}

}  // namespace tessera
