// SPDX-License-Identifier: Apache-2.0
#include "framework/tokenizer/added_tokens.h"

#include <algorithm>

#include "framework/tokenizer/unicode.h"
#include "framework/tokenizer/utf8.h"

namespace tessera {
namespace {

unsigned char first_byte(const AddedToken& token) {
  return static_cast<unsigned char>(token.text[0]);
}

// Where the character in front of `at` begins.
size_t before(std::string_view text, size_t at) {
  --at;
  while (at > 0 && is_utf8_continuation(text[at])) --at;
  return at;
}

char32_t character(std::string_view text, size_t at) {
  return utf8_value(text.data() + at, std::max(utf8_length(text.substr(at, 4)), 1));
}

bool stands_alone(std::string_view text, size_t begin, size_t end) {
  return (begin == 0 || !is_word_character(character(text, before(text, begin)))) &&
         (end == text.size() || !is_word_character(character(text, end)));
}

size_t space_begin(std::string_view text, size_t from, size_t begin) {
  while (begin > from && is_white_space(character(text, before(text, begin)))) begin = before(text, begin);
  return begin;
}

size_t space_end(std::string_view text, size_t end) {
  while (end < text.size() && is_white_space(character(text, end)))
    end += static_cast<size_t>(std::max(utf8_length(text.substr(end, 4)), 1));
  return end;
}

}  // namespace

AddedTokenFinder::AddedTokenFinder(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  std::erase_if(tokens_, [](const AddedToken& token) { return token.text.empty(); });
  std::stable_sort(tokens_.begin(), tokens_.end(), [](const AddedToken& a, const AddedToken& b) {
    return first_byte(a) != first_byte(b) ? first_byte(a) < first_byte(b) : a.text.size() > b.text.size();
  });
  for (size_t i = 0; i < tokens_.size(); ++i) {
    const AddedToken& token = tokens_[i];
    auto& range = with_[first_byte(token)];
    if (range.second == 0) range.first = i;
    range.second = i + 1;
    if (token.single_word || token.takes_left || token.takes_right) reach_.reset();
    if (reach_) reach_ = std::max(*reach_, token.text.size());
  }
}

const AddedToken* AddedTokenFinder::longest_at(std::string_view text) const {
  const auto [begin, end] = with_[static_cast<unsigned char>(text[0])];
  for (size_t i = begin; i < end; ++i)
    if (text.starts_with(tokens_[i].text)) return &tokens_[i];
  return nullptr;
}

std::optional<AddedTokenFinder::Found> AddedTokenFinder::find(std::string_view text, size_t from) const {
  for (size_t at = from; at < text.size(); ++at) {
    if (with_[static_cast<unsigned char>(text[at])].second == 0) continue;
    const AddedToken* const token = longest_at(text.substr(at));
    if (!token) continue;
    Found found{.begin = at, .end = at + token->text.size(), .id = token->id};
    if (token->single_word && !stands_alone(text, found.begin, found.end)) {
      at = found.end - 1;  // what is passed over is text as a whole
      continue;
    }
    if (token->takes_left) found.begin = space_begin(text, from, found.begin);
    if (token->takes_right) found.end = space_end(text, found.end);
    return found;
  }
  return std::nullopt;
}

}  // namespace tessera
