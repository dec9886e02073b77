// SPDX-License-Identifier: Apache-2.0
#include "framework/tokenizer/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <vector>

#include "framework/base/check.h"
#include "framework/tokenizer/unicode_tables.h"
#include "framework/tokenizer/utf8.h"

namespace tessera {
namespace {

int options_of(NormalForm form) {
  switch (form) {
    case NormalForm::Nfc:
      return UTF8PROC_COMPOSE;
    case NormalForm::Nfd:
      return UTF8PROC_DECOMPOSE;
    case NormalForm::Nfkc:
      return UTF8PROC_COMPOSE | UTF8PROC_COMPAT;
    case NormalForm::Nfkd:
      break;
  }
  return UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT;
}

std::vector<utf8proc_int32_t> decomposed(std::string_view text, utf8proc_option_t options) {
  const auto one_by_one = static_cast<utf8proc_option_t>((options & ~UTF8PROC_COMPOSE) | UTF8PROC_DECOMPOSE);
  constexpr size_t kLongest = 32;  // the longest decomposition has 18 characters
  std::vector<utf8proc_int32_t> characters;
  characters.reserve(text.size() + kLongest);
  for (size_t at = 0; at < text.size();) {
    const int length = utf8_length(text.substr(at, 4));
    const size_t before = characters.size();
    characters.resize(before + kLongest);
    int boundary = 0;
    const utf8proc_ssize_t count =
        utf8proc_decompose_char(static_cast<utf8proc_int32_t>(utf8_value(text.data() + at, length)),
                                characters.data() + before, kLongest, one_by_one, &boundary);
    CHECK_AS(ExitCode::Data, count >= 0 && count <= static_cast<utf8proc_ssize_t>(kLongest),
             "the decomposition of a character: {}", utf8proc_errmsg(count));
    characters.resize(before + static_cast<size_t>(count));
    at += static_cast<size_t>(length);
  }
  return characters;
}

int combining_class(utf8proc_int32_t character) {
  return utf8proc_get_property(character)->combining_class;
}

// Canonical order. utf8proc's own exchanges neighbours, and so takes quadratic time for a long run of marks.
void order_marks(std::vector<utf8proc_int32_t>& characters) {
  const auto is_mark = [](utf8proc_int32_t c) { return combining_class(c) > 0; };
  for (auto at = characters.begin(); at != characters.end();) {
    at = std::find_if(at, characters.end(), is_mark);
    const auto end = std::find_if_not(at, characters.end(), is_mark);
    std::stable_sort(at, end, [](auto a, auto b) { return combining_class(a) < combining_class(b); });
    at = end;
  }
}

std::string normalized_part(std::string_view text, NormalForm form) {
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | options_of(form));
  std::vector<utf8proc_int32_t> characters = decomposed(text, options);
  order_marks(characters);
  // Composes if asked to, and writes UTF-8 into the same memory with one byte behind it.
  const auto count = static_cast<utf8proc_ssize_t>(characters.size());
  characters.push_back(0);
  const utf8proc_ssize_t size = utf8proc_reencode(characters.data(), count, options);
  CHECK_AS(ExitCode::Data, size >= 0, "the normal form of a text of {} bytes: {}", text.size(),
           utf8proc_errmsg(size));
  return std::string(reinterpret_cast<const char*>(characters.data()), static_cast<size_t>(size));
}

// The range of a sorted table that holds `character`, or none.
template <class Table>
auto* range_of(const Table& table, char32_t character) {
  const auto after = std::upper_bound(table.begin(), table.end(), character,
                                      [](char32_t c, const auto& range) { return c < range.first; });
  return after != table.begin() && character <= std::prev(after)->last ? &*std::prev(after) : nullptr;
}

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

}  // namespace

std::string normalized(std::string_view text, NormalForm form) {
  if (is_ascii(text)) return std::string(text);  // so is every form of it
  std::string result;
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const int length = utf8_length(text.substr(at, 4));
    CHECK(length > 0, "text that is no UTF-8 at byte {}", at);
    const size_t end = at + static_cast<size_t>(length);
    if (length > 1 && range_of(unicode_tables::kInert, utf8_value(text.data() + at, length))) {
      result += normalized_part(text.substr(begin, at - begin), form);
      result += text.substr(at, end - at);
      begin = end;
    }
    at = end;
  }
  return result + normalized_part(text.substr(begin), form);
}

bool replace_newer_characters(std::string_view text, std::string& out) {
  bool found = false;
  for (size_t at = 0; at < text.size();) {
    if (static_cast<unsigned char>(text[at]) < 0xE0) {  // newer ones have three bytes or four
      ++at;
      continue;
    }
    const int length = utf8_length(text.substr(at, 4));
    const auto* const newer = range_of(unicode_tables::kNewer, utf8_value(text.data() + at, length));
    if (newer) {
      if (!found) out = text;
      found = true;
      std::string older;
      append_utf8(older, newer->stand_in);
      out.replace(at, older.size(), older);
    }
    at += static_cast<size_t>(length);
  }
  return found;
}

bool begins_normal_text(char32_t c) {
  if (c < 0x300) return true;
  const bool jamo = (c >= 0x1100 && c <= 0x11FF) || (c >= 0xFFA0 && c <= 0xFFDC);  // vowels and finals join
  const bool voicing = c == 0xFF9E || c == 0xFF9F;                                 // become marks in NFKC
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  const bool mark = category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_MC ||
                    category == UTF8PROC_CATEGORY_ME || category == UTF8PROC_CATEGORY_CN;
  return !jamo && !voicing && !mark;
}

bool is_word_character(char32_t character) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(character))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:
      return false;
  }
}

bool is_white_space(char32_t c) {
  return (c >= 0x9 && c <= 0xD) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

}  // namespace tessera
