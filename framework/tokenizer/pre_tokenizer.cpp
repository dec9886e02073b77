// SPDX-License-Identifier: Apache-2.0
#include "framework/tokenizer/pre_tokenizer.h"

#include <algorithm>

#include "framework/tokenizer/unicode.h"
#include "framework/tokenizer/utf8.h"

namespace tessera {
namespace {

// The pieces of one text: matches and what lies between them, joined as the split says.
class Pieces {
 public:
  Pieces(std::string_view text, Split::Matches matches, const WordCutter::Sink& sink)
      : text_(text), matches_(matches), sink_(sink) {}

  // The text from the end of the last piece to `end`.
  void add(size_t end, bool is_match) {
    if (end == end_) return;
    if (end_ > begin_ && !joins(is_match)) give();
    end_ = end;
    last_is_match_ = is_match;
  }

  void give() {
    if (end_ > begin_) sink_(text_.substr(begin_, end_ - begin_));
    begin_ = end_;
  }

  size_t begin() const { return begin_; }
  size_t end() const { return end_; }

 private:
  bool joins(bool is_match) const {
    switch (matches_) {
      case Split::Matches::Alone:
        return false;
      case Split::Matches::WithPrevious:
        return is_match && !last_is_match_;
      case Split::Matches::WithNext:
        return !is_match && last_is_match_;
      case Split::Matches::Joined:
        break;
    }
    return is_match == last_is_match_;
  }

  std::string_view text_;
  Split::Matches matches_;
  const WordCutter::Sink& sink_;
  size_t begin_ = 0, end_ = 0;  // of the piece that may still grow
  bool last_is_match_ = false;
};

}  // namespace

WordCutter::WordCutter(const std::vector<Split>& splits)
    : splits_(splits), can_stream_(!splits.empty() && splits[0].pattern.looks_ahead_only()) {
  for (const Split& split : splits) matchers_.emplace_back(split.pattern);
}

size_t WordCutter::cut(std::string_view text, bool more, const Sink& sink) {
  if (!replace_newer_characters(text, older_)) return cut(0, text, more, sink);
  return cut(0, older_, more, [&](std::string_view piece) {
    sink(text.substr(static_cast<size_t>(piece.data() - older_.data()), piece.size()));
  });
}

size_t WordCutter::cut(size_t step, std::string_view text, bool more, const Sink& sink) {
  if (step == splits_.size()) {
    if (!text.empty()) sink(text);
    return text.size();
  }
  if (more && !can_stream_) return 0;
  const Sink next = [&](std::string_view piece) { cut(step + 1, piece, false, sink); };
  Pieces pieces(text, splits_[step].matches, step + 1 == splits_.size() ? sink : next);
  Matcher& matcher = matchers_[step];
  size_t from = 0;
  while (from < text.size()) {
    const Matcher::Result result = matcher.find(text, from, more);
    if (result != Matcher::Result::Match) {
      if (!more) pieces.add(text.size(), false);
      break;
    }
    pieces.add(matcher.begin(), false);
    pieces.add(matcher.end(), true);
    from = matcher.end();
    if (matcher.begin() == matcher.end() && from < text.size())
      from += static_cast<size_t>(
          std::max(utf8_length(text.substr(from, 4)), 1));  // an empty match moves on by one
  }
  if (more) return pieces.begin();  // the last piece may go on
  pieces.give();
  return text.size();
}

}  // namespace tessera
