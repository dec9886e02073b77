// SPDX-License-Identifier: Apache-2.0
// The four normal forms of Unicode (Standard Annex 15) and two classes of characters, by utf8proc.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace tessera {

enum class NormalForm : uint8_t { Nfc, Nfd, Nfkc, Nfkd };

// `text` must be valid UTF-8.
std::string normalized(std::string_view text, NormalForm form);
// Whether text may be cut in front of this character and normalised in parts: it never combines with what
// stands before it. (Some characters of which that holds are not known here.)
bool begins_normal_text(char32_t character);

// For patterns: whether PCRE2 does not know some character of `text`, because it is too new; then `out` is
// the text with an older character of the same category and size in its place.
bool replace_newer_characters(std::string_view text, std::string& out);

bool is_white_space(char32_t character);     // the property White_Space
bool is_word_character(char32_t character);  // letters, marks, numbers, and connecting punctuation such as _

}  // namespace tessera
