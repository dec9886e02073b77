// SPDX-License-Identifier: Apache-2.0
// One token a byte: ids 0 to 255 are the bytes, 256 ends a document. Any bytes are valid text.
#pragma once
#include "framework/tokenizer/tokenizer.h"

namespace tessera {

class ByteTokenizer final : public Tokenizer {
 public:
  static constexpr int32_t kEndOfDocument = 256;
  static constexpr int64_t kVocabSize = 257;

  std::string_view type() const override { return "bytes"; }
  std::string name() const override { return "bytes"; }
  int64_t vocab_size() const override { return kVocabSize; }
  int32_t end_of_document() const override { return kEndOfDocument; }
  std::unique_ptr<Encoder> encoder(Controls controls = Controls::AreText) const override;
  size_t last_cut(std::string_view text) const override { return text.size(); }
  std::string_view text_of(int32_t id) const override;
};

}  // namespace tessera
