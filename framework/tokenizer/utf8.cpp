// SPDX-License-Identifier: Apache-2.0
#include "framework/tokenizer/utf8.h"

#include <algorithm>
#include <cstring>

namespace tessera {
namespace {

unsigned char byte_at(std::string_view text, size_t i) {
  return static_cast<unsigned char>(text[i]);
}

// Bytes that a character with this first byte has; 0: no character begins so.
int expected_length(unsigned char first) {
  if (first < 0x80) return 1;
  if (first < 0xC2 || first > 0xF4) return 0;
  return first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
}

// Whether `second` may follow `first`: this is where overlong forms, surrogates and too large values differ.
bool fits_second(unsigned char first, unsigned char second) {
  const unsigned char low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  const unsigned char high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  return second >= low && second <= high;
}

}  // namespace

int utf8_length(std::string_view text) {
  const unsigned char first = byte_at(text, 0);
  const int length = expected_length(first);
  if (length <= 1) return length;
  for (size_t i = 1; i < static_cast<size_t>(length); ++i) {
    if (i == text.size()) return -1;
    if (i == 1 ? !fits_second(first, byte_at(text, 1)) : !is_utf8_continuation(text[i])) return 0;
  }
  return length;
}

char32_t utf8_value(const char* text, int length) {
  const auto first = static_cast<unsigned char>(text[0]);
  if (length == 1) return first;
  auto value = static_cast<char32_t>(first & (0x7F >> length));
  for (int i = 1; i < length; ++i) value = (value << 6) | (static_cast<unsigned char>(text[i]) & 0x3F);
  return value;
}

size_t valid_utf8(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    uint64_t eight;
    if (at + sizeof(eight) <= text.size()) {
      std::memcpy(&eight, text.data() + at, sizeof(eight));
      if ((eight & 0x8080808080808080ULL) == 0) {
        at += sizeof(eight);
        continue;
      }
    }
    const int length = utf8_length(text.substr(at, 4));
    if (length <= 0) break;
    at += static_cast<size_t>(length);
  }
  return at;
}

size_t invalid_utf8(std::string_view text) {
  const unsigned char first = byte_at(text, 0);
  const int length = expected_length(first);
  if (length < 2 || text.size() < 2 || !fits_second(first, byte_at(text, 1))) return 1;
  size_t size = 2;
  while (size < text.size() && size < static_cast<size_t>(length) && is_utf8_continuation(text[size])) ++size;
  return size;
}

void append_utf8(std::string& text, char32_t c) {
  const auto put = [&](char32_t byte) { text.push_back(static_cast<char>(byte)); };
  if (c < 0x80) return put(c);
  if (c < 0x800) {
    put(0xC0 | c >> 6);
  } else if (c < 0x10000) {
    put(0xE0 | c >> 12);
    put(0x80 | (c >> 6 & 0x3F));
  } else {
    put(0xF0 | c >> 18);
    put(0x80 | (c >> 12 & 0x3F));
    put(0x80 | (c >> 6 & 0x3F));
  }
  put(0x80 | (c & 0x3F));
}

}  // namespace tessera
