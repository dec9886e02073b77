// SPDX-License-Identifier: Apache-2.0
#include "framework/tokenizer/pattern_syntax.h"

#include "framework/base/check.h"

namespace tessera {
namespace {

// White_Space of the Unicode Character Database. PCRE2's own \s differs from it by U+180E.
constexpr std::string_view kSpaces =
    "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{"
    "3000}";

class Porter {
 public:
  Porter(std::string_view expression, std::string_view place) : from_(expression), place_(place) {}

  PortedPattern run() {
    while (at_ < from_.size()) step();
    CHECK_AS(ExitCode::Data, !in_class_, "{}: a [ is not closed in {}", place_, from_);
    return std::move(to_);
  }

 private:
  bool next_is(std::string_view text) const { return from_.substr(at_).starts_with(text); }

  [[noreturn]] void refuse(std::string_view form) const {
    fail(ExitCode::Data, "{}: the form {} at byte {} of the pattern is not known; the pattern is {}", place_,
         form, at_, from_);
  }

  void step() {
    const char c = from_[at_];
    if (c == '\\') return escape();
    if (in_class_) {
      class_character(c);
    } else if (c == '[') {
      open_class();
    } else {
      if (c == '^' || c == '$' || next_is("(?<")) to_.looks_ahead_only = false;
      if (next_is("{,")) refuse("{,n}");
      copy(1);
    }
  }

  void open_class() {
    in_class_ = true;
    copy(1);
    if (next_is("^")) copy(1);
    if (next_is("]")) refuse("[]...]");
  }

  void class_character(char c) {
    if (c == '[') refuse("[ inside of [ ]");
    if (next_is("&&")) refuse("&& inside of [ ]");
    if (c == ']') in_class_ = false;
    copy(1);
  }

  void escape() {
    CHECK_AS(ExitCode::Data, at_ + 1 < from_.size(), "{}: a pattern ends with \\: {}", place_, from_);
    const char c = from_[at_ + 1];
    constexpr std::string_view kPlain = "pPdDnrtfvx";  // the same in both
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (c == 's' || c == 'S') {
      space(c == 'S');
    } else if (!letter || kPlain.find(c) != std::string_view::npos) {
      copy(2);
    } else if (!in_class_ && (c == 'b' || c == 'B' || c == 'A' || c == 'z')) {
      to_.looks_ahead_only = false;
      copy(2);
    } else if (c == 'u') {
      code_point();
    } else if (c == 'w' || c == 'W') {
      word(c == 'W');
    } else {
      refuse(from_.substr(at_, 2));
    }
  }

  void space(bool negated) {
    if (in_class_ && negated) refuse("\\S inside of [ ]");
    if (in_class_)
      to_.expression += kSpaces;
    else
      to_.expression += std::string(negated ? "[^" : "[") + std::string(kSpaces) + "]";
    at_ += 2;
  }

  // \uHHHH
  void code_point() {
    const std::string_view digits = from_.substr(at_ + 2, 4);
    if (digits.size() < 4 || digits.find_first_not_of("0123456789abcdefABCDEF") != std::string_view::npos)
      refuse("\\u without four digits");
    to_.expression += fmt::format("\\x{{{}}}", digits);
    at_ += 6;
  }

  void word(bool negated) {
    constexpr std::string_view kWord = "\\p{L}\\p{M}\\p{N}\\p{Pc}";
    if (in_class_ && negated) refuse("\\W inside of [ ]");
    if (in_class_)
      to_.expression += kWord;
    else
      to_.expression += std::string(negated ? "[^" : "[") + std::string(kWord) + "]";
    at_ += 2;
  }

  void copy(size_t count) {
    to_.expression += from_.substr(at_, count);
    at_ += count;
  }

  std::string_view from_, place_;
  size_t at_ = 0;
  bool in_class_ = false;
  PortedPattern to_;
};

}  // namespace

PortedPattern port_pattern(std::string_view expression, std::string_view place) {
  return Porter(expression, place).run();
}

}  // namespace tessera
