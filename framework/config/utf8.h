// SPDX-License-Identifier: Apache-2.0
// Whether bytes are well-formed UTF-8: what TOML files hold, and so what a resolved config must hold.
#pragma once
#include <string>
#include <string_view>

namespace tessera::config {

bool is_utf8(std::string_view text);

// At most `bytes` bytes, with "..." where something was cut; no character is cut in two.
std::string cut_utf8(std::string_view text, size_t bytes);

}  // namespace tessera::config
