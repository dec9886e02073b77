// SPDX-License-Identifier: Apache-2.0
// Byte-pair encoding of one word. The word starts as symbols; of all neighbours that some merge joins, the
// ones with the lowest rank are joined, the leftmost first, until none is left (Sennrich et al. 2016,
// arXiv:1508.07909). A model is immutable; what a thread needs while merging is a MergeScratch of its own.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "framework/tokenizer/flat_map.h"

namespace tessera {

struct Merge {
  int32_t left = 0, right = 0, result = 0;
  int32_t rank = 0;  // lower joins first
};

struct BpeVocabulary {
  // Bytes: each byte is a symbol, and token texts are bytes. Characters: each character is one, or, where the
  // vocabulary lacks it, the tokens "<0x00>" to "<0xFF>" of its bytes.
  enum class Symbols : uint8_t { Bytes, Characters };

  Symbols symbols = Symbols::Bytes;
  std::vector<std::string> tokens;  // text by id; empty: no text makes it
  std::vector<Merge> merges;
  bool whole_words = false;  // a word that is a token becomes it, whatever the merges say
};

struct MergeScratch {
  struct Symbol {
    int32_t id, previous, next;  // neighbours by index; -1: none
    int32_t rank;                // of the merge with the next; kNoRank: none
  };
  std::vector<int32_t> ids, ranks;
  std::vector<Symbol> symbols;
  std::vector<uint64_t> heap;  // rank and index
};

class BpeModel {
 public:
  // Throws (exit 3), with `place` first, when some byte has no token: there would be texts that cannot be
  // encoded.
  BpeModel(BpeVocabulary vocabulary, std::string_view place);

  const std::vector<std::string>& tokens() const { return tokens_; }
  bool whole_words() const { return whole_words_; }
  bool has_byte_symbols() const { return symbols_ == BpeVocabulary::Symbols::Bytes; }

  // The id of the token with this text, -1 for none.
  int32_t find(std::string_view text) const;
  // The byte that a token such as "<0x0A>" stands for; -1 for others, and where symbols are bytes.
  int byte_of(int32_t id) const { return has_byte_symbols() ? -1 : byte_of_token_[static_cast<size_t>(id)]; }

  // Appends the ids of `word`, by merges alone. O(n log n) in its length.
  void merge(std::string_view word, std::vector<int32_t>& ids, MergeScratch& scratch) const;

  // The first place after the start of `word` that no merge crosses, whatever stands around: both parts
  // encode to what the whole does. word.size() when there is none.
  size_t first_border(std::string_view word) const;

 private:
  struct Joined {
    int32_t rank = 0, result = 0;
  };
  static constexpr int32_t kNoRank = INT32_MAX;

  void find_byte_tokens(std::string_view place);
  void add_merges(std::span<const Merge> merges);
  void add_border(std::string_view left, std::string_view right);
  int32_t character_symbol(std::string_view character) const;
  void symbols_of(std::string_view word, std::vector<int32_t>& ids) const;
  const Joined* joined(int32_t left, int32_t right) const;
  int32_t rank_of(int32_t left, int32_t right) const;
  void merge_short(MergeScratch& scratch) const;
  void merge_long(MergeScratch& scratch) const;
  void push(MergeScratch& scratch, int32_t index) const;

  BpeVocabulary::Symbols symbols_;
  std::vector<std::string> tokens_;
  bool whole_words_;
  std::unordered_map<std::string_view, int32_t> ids_;
  std::array<int32_t, 256> byte_tokens_{};
  std::vector<int16_t> byte_of_token_;
  std::array<int32_t, 128> ascii_{};  // ids of characters, -1: none
  FlatMap<int32_t> characters_;       // by code point
  FlatMap<Joined> merges_;            // by both ids
  bool joins_byte_tokens_ = false;
  FlatMap<bool> crossed_;  // pairs of symbols that stand side by side in some merge
};

}  // namespace tessera
