// SPDX-License-Identifier: Apache-2.0
#include "framework/config/utf8.h"

#include <cstdint>

namespace tessera::config {
namespace {

bool is_continuation(char c) {
  return (static_cast<unsigned char>(c) & 0xC0) == 0x80;
}

// Length of the character that starts at i; 0 when there is none. Overlong forms, surrogates and values
// above 0x10FFFF are none.
size_t character_length(std::string_view text, size_t i) {
  const auto first = static_cast<unsigned char>(text[i]);
  if (first < 0x80) return 1;
  const size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || i + length > text.size()) return 0;
  uint32_t value = first & (0x7Fu >> length);
  for (size_t j = 1; j < length; ++j) {
    if (!is_continuation(text[i + j])) return 0;
    value = (value << 6) | (static_cast<unsigned char>(text[i + j]) & 0x3Fu);
  }
  constexpr uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool is_surrogate = value >= 0xD800 && value < 0xE000;
  return value < kSmallest[length] || value > 0x10FFFF || is_surrogate ? 0 : length;
}

}  // namespace

bool is_utf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const size_t length = character_length(text, i);
    if (length == 0) return false;
    i += length;
  }
  return true;
}

std::string cut_utf8(std::string_view text, size_t bytes) {
  if (text.size() <= bytes) return std::string(text);
  while (bytes > 0 && is_continuation(text[bytes])) --bytes;
  return std::string(text.substr(0, bytes)) + "...";
}

}  // namespace tessera::config
