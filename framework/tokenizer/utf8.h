// SPDX-License-Identifier: Apache-2.0
// Characters of UTF-8 as the Unicode Standard defines them: no overlong forms, no surrogates, nothing above
// U+10FFFF.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tessera {

// Bytes of the character at the start of `text` (not empty), 1 to 4. 0: none is there; -1: `text` ends inside
// of what may become one.
int utf8_length(std::string_view text);

// The code point of a valid character of this many bytes.
char32_t utf8_value(const char* text, int length);

// Bytes of the longest prefix that is valid.
size_t valid_utf8(std::string_view text);

// Bytes of the ill-formed sequence at the start of `text`, at least 1: as many as begin a character and do
// not complete it, so that replacing each such sequence gives what other programs give.
size_t invalid_utf8(std::string_view text);

void append_utf8(std::string& text, char32_t character);

inline bool is_utf8_continuation(char c) {
  return (static_cast<unsigned char>(c) & 0xC0) == 0x80;
}

}  // namespace tessera
