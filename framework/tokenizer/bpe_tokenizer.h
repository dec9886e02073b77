// SPDX-License-Identifier: Apache-2.0
// The tokenizer that a tokenizer file describes. A document goes through these stages, each of which may hold
// back what more text could change: control bytes and added tokens are taken out; the segments between them
// are normalised, searched for the added tokens of normalised text, cut into words; and each word is merged,
// or found in a cache.
#pragma once
#include <optional>

#include "framework/tokenizer/added_tokens.h"
#include "framework/tokenizer/bpe_model.h"
#include "framework/tokenizer/normalizer.h"
#include "framework/tokenizer/pre_tokenizer.h"
#include "framework/tokenizer/tokenizer.h"

namespace tessera {

// What a tokenizer file says.
struct BpeDefinition {
  std::string name, place;  // place: the file, for messages
  BpeVocabulary vocabulary;
  std::vector<AddedToken> added;
  std::vector<NormalizerStep> normalizer;
  std::optional<ReplaceText> space;  // how a space is written inside of words, after normalising
  SegmentPrefix prefix;
  std::vector<Split> splits;  // none: only merges say where words end
  int64_t vocab_size = 0;
  int32_t end_of_document = 0;
};

class BpeTokenizer final : public Tokenizer {
 public:
  explicit BpeTokenizer(BpeDefinition definition);

  std::string_view type() const override { return "bpe"; }
  std::string name() const override { return name_; }
  int64_t vocab_size() const override { return vocab_size_; }
  int32_t end_of_document() const override { return end_of_document_; }
  std::unique_ptr<Encoder> encoder(Controls controls = Controls::AreText) const override;
  size_t last_cut(std::string_view text) const override;
  std::string_view text_of(int32_t id) const override;
  std::string_view document_prefix() const override { return document_prefix_; }

 private:
  friend class BpeEncoder;
  struct Finders {
    AddedTokenFinder raw, normalised;
  };
  Finders find_in_text(const std::vector<AddedToken>& added, bool controls) const;
  bool cuts_at_lines(const BpeDefinition& definition) const;
  void write_texts(const BpeDefinition& definition);

  std::string name_;
  int64_t vocab_size_;
  int32_t end_of_document_;
  BpeModel model_;
  Normalizer normalizer_;
  std::optional<ReplaceText> space_;
  SegmentPrefix prefix_;
  std::vector<Split> splits_;
  Finders plain_, with_controls_;
  std::vector<std::string> texts_;  // by id; empty for control tokens and ids that are reserved
  std::string document_prefix_;
  bool cuts_at_lines_;
};

}  // namespace tessera
