// SPDX-License-Identifier: Apache-2.0
// Cuts text into words, none of which a merge crosses. Each split of the tokenizer file cuts the pieces of
// the one before: at the matches of its pattern, which are pieces themselves or go with a neighbour. Every
// byte of the text is in exactly one word.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "framework/tokenizer/pattern.h"

namespace tessera {

struct Split {
  enum class Matches : uint8_t {
    Alone,         // each match is a piece, and so is the text between two
    WithPrevious,  // a match belongs to the text in front of it
    WithNext,
    Joined,  // neighbouring matches are one piece
  };
  TextPattern pattern;
  Matches matches = Matches::Alone;
  bool breaks_lines = false;  // no match has a line end inside that a letter follows: is_known_pattern()
};

// What is put in front of a segment that does not begin with it: "" for nothing.
struct SegmentPrefix {
  enum class When : uint8_t { Never, FirstSegment, EachSegment };
  When when = When::Never;
  std::string text;
};

// For one thread. The splits must outlive it.
class WordCutter {
 public:
  using Sink = std::function<void(std::string_view word)>;

  explicit WordCutter(const std::vector<Split>& splits);

  // Hands the words of `text` to `sink` and returns how many bytes they have: all, or with `more` text to
  // come those that it cannot change.
  size_t cut(std::string_view text, bool more, const Sink& sink);

 private:
  size_t cut(size_t step, std::string_view text, bool more, const Sink& sink);

  const std::vector<Split>& splits_;
  std::vector<Matcher> matchers_;
  bool can_stream_;
  std::string older_;  // the text with stand-ins for characters that the patterns do not know
};

}  // namespace tessera
