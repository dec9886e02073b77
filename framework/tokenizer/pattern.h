// SPDX-License-Identifier: Apache-2.0
// Regular expressions of tokenizer files, compiled to machine code by PCRE2. The files mean the syntax of
// Oniguruma or of Rust: what that syntax reads otherwise is rewritten (\s is the Unicode property
// White_Space) or refused.
#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace tessera {

class TextPattern {
 public:
  // Throws (exit 3) for what cannot be compiled or would mean something else here; `place` begins the
  // message.
  TextPattern(std::string_view expression, std::string_view place);
  static TextPattern literal(std::string_view text);  // matches exactly this
  ~TextPattern();
  TextPattern(TextPattern&&) noexcept;
  TextPattern& operator=(TextPattern&&) noexcept;

  // Whether a match depends only on the text from its start on: then text may be cut at any end of a match.
  bool looks_ahead_only() const { return looks_ahead_only_; }

 private:
  friend class Matcher;
  struct Code;
  std::unique_ptr<Code> code_;
  bool looks_ahead_only_ = true;
};

// The memory for matching one pattern; one a thread. The pattern must outlive it.
class Matcher {
 public:
  explicit Matcher(const TextPattern& pattern);
  ~Matcher();
  Matcher(Matcher&&) noexcept;

  enum class Result { None, Match, Undecided };  // Undecided: with more text behind `text` it may be another
  // The first match at or after `from`, in [begin(), end()). `text` must be valid UTF-8. With `more` text to
  // come, a result that it could change is Undecided, and begin() is where the text in question starts.
  Result find(std::string_view text, size_t from, bool more);
  size_t begin() const { return begin_; }
  size_t end() const { return end_; }

 private:
  struct Memory;
  const TextPattern* pattern_;
  std::unique_ptr<Memory> memory_;
  size_t begin_ = 0, end_ = 0;
};

}  // namespace tessera
