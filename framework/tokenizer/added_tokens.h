// SPDX-License-Identifier: Apache-2.0
// Tokens that are found in the text as they are written, before anything else looks at it. Control tokens are
// not among them unless a caller asks: plain text is only text.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

struct AddedToken {
  std::string text;
  int32_t id = 0;
  bool control = false;                          // "special" in tokenizer.json
  bool normalized = true;                        // looked for in the normalised text
  bool single_word = false;                      // only where no letter, digit or _ stands beside it
  bool takes_left = false, takes_right = false;  // "lstrip", "rstrip": with the white space beside it
};

class AddedTokenFinder {
 public:
  AddedTokenFinder() = default;
  explicit AddedTokenFinder(std::vector<AddedToken> tokens);

  bool empty() const { return tokens_.empty(); }
  // Bytes of text behind a place that may decide what is found there; none: any number.
  std::optional<size_t> reach() const { return reach_; }

  struct Found {
    size_t begin = 0, end = 0;  // of the text that the token replaces
    int32_t id = 0;
  };
  // The first token that begins at or after `from`; of several that begin there the longest. `from` is also
  // where the white space that a token takes may begin.
  std::optional<Found> find(std::string_view text, size_t from) const;

 private:
  const AddedToken* longest_at(std::string_view text) const;

  std::vector<AddedToken> tokens_;                     // by first byte, then the longest first
  std::array<std::pair<size_t, size_t>, 256> with_{};  // the range of tokens with this first byte
  std::optional<size_t> reach_ = 0;
};

}  // namespace tessera
