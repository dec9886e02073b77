// SPDX-License-Identifier: Apache-2.0
#include "framework/config/characters.h"

#include <fmt/format.h>

#include <algorithm>

#include "framework/config/utf8.h"

namespace tessera::config {
namespace {

bool is_ascii(char c) {
  return static_cast<unsigned char>(c) < 0x80;
}
bool is_control(char c) {
  const auto value = static_cast<unsigned char>(c);
  return (value < 0x20 && c != '\t' && c != '\n' && c != '\r') || value == 0x7f;
}
bool is_quote(char c) {
  return c == '"' || c == '\'';
}

class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {
    constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
    if (text.starts_with(kByteOrderMark)) at_ = line_begin_ = kByteOrderMark.size();
  }

  std::optional<ForbiddenCharacter> run() {
    while (!is_end() && !found_) {
      const char c = text_[at_];
      if (c == '#')
        skip_comment();
      else if (is_quote(c))
        skip_string();
      else if (!is_ascii(c) || is_control(c))
        refuse(fmt::format("{} outside of a string or comment", shown()));
      else
        advance();
    }
    return found_;
  }

 private:
  bool is_end() const { return at_ >= text_.size(); }
  bool is_at(std::string_view part) const { return text_.substr(at_, part.size()) == part; }

  void advance() {
    if (text_[at_++] != '\n') return;
    ++line_;
    line_begin_ = at_;
  }

  void refuse(std::string what) {
    const std::string_view before = text_.substr(line_begin_, at_ - line_begin_);
    const auto characters = std::count_if(before.begin(), before.end(), starts_character);
    found_ = {line_, static_cast<uint32_t>(characters + 1), std::move(what)};
  }

  std::string shown() const {
    const auto byte = static_cast<unsigned char>(text_[at_]);
    if (is_ascii(text_[at_])) return fmt::format("control character U+{:04X}", byte);
    const std::optional<char32_t> character = character_at(text_, at_);
    if (!character) return fmt::format("byte 0x{:02X}, which is not UTF-8,", byte);
    return fmt::format("character U+{:04X}", static_cast<uint32_t>(*character));
  }

  void skip_comment() {
    while (!is_end() && text_[at_] != '\n') advance();
  }

  // The library takes a quote inside of a word for a part of it, and reads on in what looks like a string
  // here.
  bool may_start_string() const {
    constexpr std::string_view kBeforeString = " \t\r\n=[{,.";
    return at_ == line_begin_ || kBeforeString.find(text_[at_ - 1]) != kBeforeString.npos;
  }

  void skip_string() {
    const char quote = text_[at_];
    const std::string three(3, quote);
    if (!may_start_string()) {
      refuse(fmt::format("{} straight after '{}'", quote, text_[at_ - 1]));
    } else if (is_at(three)) {
      at_ += 3;
      skip_long_string(quote, three);
    } else {
      advance();
      skip_short_string(quote);
    }
  }

  // Ends at the line's end as well: the library stops there.
  void skip_short_string(char quote) {
    while (!is_end() && text_[at_] != '\n') {
      const char c = text_[at_];
      advance();
      if (c == quote) return;
      if (c == '\\' && quote == '"' && !is_end() && text_[at_] != '\n') advance();
    }
  }

  void skip_long_string(char quote, const std::string& three) {
    while (!is_end() && !found_) {
      if (is_at(three)) {
        constexpr size_t kMostAtEnd = 5;  // two of the string's own, and three
        for (size_t i = 0; i < kMostAtEnd && !is_end() && text_[at_] == quote; ++i) advance();
        return;
      }
      const char c = text_[at_];
      advance();
      if (c == '\\' && quote == '"') skip_escape();
    }
  }

  // After a backslash in a long string. At a line's end it takes the white space that follows with it, and
  // the library asks of the character after that, too, whether it is white space.
  void skip_escape() {
    const size_t begin = at_;
    constexpr std::string_view kWhite = " \t\r\n";
    while (!is_end() && kWhite.find(text_[at_]) != kWhite.npos) advance();
    if (!is_end() && !is_ascii(text_[at_]))
      refuse(at_ == begin ? fmt::format("a backslash before {}", shown())
                          : fmt::format("{} is the first after a backslash at a line's end: write it as "
                                        "\\uXXXX",
                                        shown()));
    else if (at_ == begin && !is_end())
      advance();
  }

  std::string_view text_;
  size_t at_ = 0, line_begin_ = 0;
  uint32_t line_ = 1;
  std::optional<ForbiddenCharacter> found_;
};

}  // namespace

std::optional<ForbiddenCharacter> find_forbidden_character(std::string_view text) {
  return Scanner(text).run();
}

}  // namespace tessera::config
