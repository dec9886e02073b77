// SPDX-License-Identifier: Apache-2.0
// Plain text as a token store for tokenizers that do more than bytes: it is encoded whole when it is opened,
// and the ids stay in memory. For text that is too small to be worth token files.
#pragma once
#include <functional>
#include <vector>

#include "framework/dataset/token_store.h"

namespace tessera {

// Appends the ids of a document to `ids`, with its end.
using EncodeDocument = std::function<void(std::string_view text, std::vector<int32_t>& ids)>;

class EncodedText final : public TokenStore {
 public:
  static constexpr int64_t kMostBytes = int64_t{256} << 20;  // of text

  // Each file below `path` that is not empty is a document. More text than kMostBytes is exit 3.
  EncodedText(const std::filesystem::path& path, const EncodeDocument& encode);

  int64_t tokens() const override { return static_cast<int64_t>(ids_.size()); }
  int64_t documents() const override { return static_cast<int64_t>(ends_.size()); }
  int64_t document_end(int64_t document) const override;
  void read(int64_t first, int64_t vocab_size, std::span<int32_t> out) const override;
  int64_t bytes() const override { return bytes_; }
  std::string_view kind() const override { return "text"; }
  std::string fingerprint() const override;

 private:
  std::vector<int32_t> ids_;
  std::vector<int64_t> ends_;  // in tokens
  int64_t bytes_ = 0;
};

}  // namespace tessera
