// SPDX-License-Identifier: Apache-2.0
// Text to token ids and back. Plain text never becomes a control id, whatever it contains, and
// decode(encode(text)) gives the same bytes. A Tokenizer is immutable: threads may share one.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  virtual std::string_view type() const = 0;    // "bytes"
  virtual int64_t vocab_size() const = 0;       // ids are 0 to vocab_size() - 1
  virtual int32_t end_of_document() const = 0;  // a control id: ends each document of a token file

  // Appends the ids of `text` to `ids`.
  virtual void encode(std::string_view text, std::vector<int32_t>& ids) const = 0;

  // The text of `ids`. Control ids give no text. Throws (exit 3) for an id outside the vocabulary.
  virtual std::string decode(std::span<const int32_t> ids) const = 0;

  // Where to cut `text` so that both parts encode to what the whole does: at most `limit` bytes from its
  // start, more when there is no such place before, text.size() when there is none at all.
  virtual size_t cut(std::string_view text, size_t limit) const = 0;
};

// `type` is a value of the config key tokenizer.type; `path` is empty for "bytes". Throws (exit 2) for
// another type than "bytes".
std::unique_ptr<Tokenizer> make_tokenizer(std::string_view type, const std::filesystem::path& path);

}  // namespace tessera
