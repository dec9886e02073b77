// SPDX-License-Identifier: Apache-2.0
#include "framework/config/utf8.h"

namespace tessera::config {
namespace {

// Bytes of the character whose first byte this is; 1 where no character starts so.
size_t length_by_first(char first) {
  const auto byte = static_cast<unsigned char>(first);
  return byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : byte >= 0xC0 ? 2 : 1;
}

}  // namespace

bool starts_character(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) != 0x80;
}

// Overlong forms, surrogates and values above 0x10FFFF are no characters.
std::optional<char32_t> character_at(std::string_view text, size_t i) {
  const auto first = static_cast<unsigned char>(text[i]);
  if (first < 0x80) return first;
  const size_t length = length_by_first(text[i]);
  if (first < 0xC2 || first > 0xF4 || i + length > text.size()) return std::nullopt;
  char32_t value = first & (0x7Fu >> length);
  for (size_t j = 1; j < length; ++j) {
    if (starts_character(text[i + j])) return std::nullopt;
    value = (value << 6) | (static_cast<unsigned char>(text[i + j]) & 0x3Fu);
  }
  constexpr char32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool is_surrogate = value >= 0xD800 && value < 0xE000;
  if (value < kSmallest[length] || value > 0x10FFFF || is_surrogate) return std::nullopt;
  return value;
}

bool is_utf8(std::string_view text) {
  for (size_t i = 0; i < text.size(); i += length_by_first(text[i]))
    if (!character_at(text, i)) return false;
  return true;
}

std::string cut_utf8(std::string_view text, size_t bytes) {
  if (text.size() <= bytes) return std::string(text);
  while (bytes > 0 && !starts_character(text[bytes])) --bytes;
  return std::string(text.substr(0, bytes)) + "...";
}

}  // namespace tessera::config
