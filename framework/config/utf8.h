// SPDX-License-Identifier: Apache-2.0
// Whether bytes are well-formed UTF-8: what TOML files hold, and so what a resolved config must hold.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace tessera::config {

bool is_utf8(std::string_view text);

// The character that starts at byte i; none where the bytes there are not UTF-8.
std::optional<char32_t> character_at(std::string_view text, size_t i);

// Whether a byte is the first of a character, in well-formed text.
bool starts_character(char byte);

// At most `bytes` bytes, with "..." where something was cut; no character is cut in two.
std::string cut_utf8(std::string_view text, size_t bytes);

}  // namespace tessera::config
