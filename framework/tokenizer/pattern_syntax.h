// SPDX-License-Identifier: Apache-2.0
// Rewrites an expression of a tokenizer file for PCRE2. Throws (exit 3) for forms that the two read
// differently.
#pragma once
#include <string>
#include <string_view>

namespace tessera {

struct PortedPattern {
  std::string expression;
  bool looks_ahead_only = true;  // no lookbehind, anchor or word border
};

PortedPattern port_pattern(std::string_view expression, std::string_view place);

}  // namespace tessera
