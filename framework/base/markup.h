// SPDX-License-Identifier: Apache-2.0
// Text inside of XML and HTML.
#pragma once
#include <string>
#include <string_view>

namespace tessera {

// `text`, which is UTF-8, as the content of an element or of a quoted attribute. Characters that XML 1.0 has
// no form for (most control characters, U+FFFE, U+FFFF) become U+FFFD.
std::string escape_markup(std::string_view text);

}  // namespace tessera
