// SPDX-License-Identifier: Apache-2.0
// Which characters a TOML 1.0 text may have, apart from its grammar: outside of strings and comments only
// ASCII without control characters. The TOML library (3.3) must see no other: it looks such a character up in
// a table of white space whose gaps it declares unreachable, which is undefined behaviour from U+00A1 on.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tessera::config {

struct ForbiddenCharacter {
  uint32_t line = 1;
  uint32_t column = 1;  // in characters, as the library counts
  std::string what;
};

// The first one. Text without any may still be broken: then the library stops before it leaves the strings
// and comments that were found here.
std::optional<ForbiddenCharacter> find_forbidden_character(std::string_view text);

}  // namespace tessera::config
