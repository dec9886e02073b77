// SPDX-License-Identifier: Apache-2.0
#include "framework/base/markup.h"

namespace tessera {

std::string escape_markup(std::string_view text) {
  constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool control = static_cast<unsigned char>(c) < 0x20 && c != '\t' && c != '\n' && c != '\r';
    const std::string_view three = text.substr(i, 3);
    if (c == '<') {
      result += "&lt;";
    } else if (c == '>') {
      result += "&gt;";
    } else if (c == '&') {
      result += "&amp;";
    } else if (c == '"') {
      result += "&quot;";
    } else if (c == '\'') {
      result += "&#39;";
    } else if (three == "\xEF\xBF\xBE" || three == "\xEF\xBF\xBF") {
      result += kReplacement;
      i += 2;
    } else if (control) {
      result += kReplacement;
    } else {
      result += c;
    }
  }
  return result;
}

}  // namespace tessera
