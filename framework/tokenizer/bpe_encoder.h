// SPDX-License-Identifier: Apache-2.0
// The stages of BpeTokenizer for one thread. Text flows down: add -> take -> segment_text -> normalised_text
// -> word_text -> word. Each stage keeps what it cannot pass on yet.
#pragma once
#include "framework/tokenizer/bpe_tokenizer.h"
#include "framework/tokenizer/word_cache.h"

namespace tessera {

class BpeEncoder final : public Encoder {
 public:
  BpeEncoder(const BpeTokenizer& tokenizer, const BpeTokenizer::Finders& finders);

  void add(std::string_view text, std::vector<int32_t>& ids) override;
  void end(std::vector<int32_t>& ids) override;
  void go_on() override { document_begins_ = segment_begins_ = words_begin_ = false; }

 private:
  // Text that a stage holds back. A stage looks at it again only when it has doubled: so no text is looked at
  // more than a few times, however long it cannot be cut.
  struct Held {
    std::string text;
    size_t enough = 0;
    bool add(std::string_view more) {
      text += more;
      return text.size() >= enough;
    }
    void remove(size_t count) {
      text.erase(0, count);
      enough = 2 * text.size();
    }
  };

  size_t take(std::string_view text, bool more);
  void invalid_bytes(std::string_view bytes);
  template <class Text, class End>
  size_t find_tokens(const AddedTokenFinder& finder, std::string_view text, bool more, Text&& give,
                     End&& end);
  void segment_text(std::string_view text);
  void end_segment();
  void normalise(bool more);
  void normalised_text(std::string_view text, bool more);
  void word_text(std::string_view text);
  void begin_words(std::string_view text);
  void end_words();
  void cut_words(bool more);
  size_t cut_at_borders(std::string_view text, bool more);
  void word(std::string_view word);
  void piece(std::string_view piece, bool whole_word);

  const BpeTokenizer& tokenizer_;
  const BpeTokenizer::Finders& finders_;
  WordCutter cutter_;
  WordCutter::Sink word_sink_;
  WordCache cache_;
  MergeScratch scratch_;
  std::vector<int32_t>* ids_ = nullptr;

  Held raw_, segment_, searched_, words_;
  std::string changed_, spaced_;  // buffers of one call
  bool document_begins_ = true;   // nothing of it was seen
  bool segment_begins_ = true;    // nothing of it was normalised; not so behind invalid bytes
  bool words_begin_ = true;
};

}  // namespace tessera
