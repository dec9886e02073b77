// SPDX-License-Identifier: Apache-2.0
// Reader of Megatron's indexed dataset, PREFIX.bin with PREFIX.idx, and of a loss mask beside it,
// PREFIX.mask: a byte for each token, 1 where it is to be learned as a target. No byte of the index is used
// before it is checked: an index below kCheckedWhole is checked whole when it is opened, a larger one at its
// ends, and then each border where it is read. A damaged or foreign file is an Error with exit code 3.
#pragma once
#include <optional>

#include "framework/dataset/file.h"
#include "framework/dataset/token_store.h"
#include "framework/dataset/token_type.h"

namespace tessera {

// What the writer noted beside the two files, in PREFIX.meta.json; files of others have none.
struct TokenFileNote {
  std::string tokenizer;  // its type, "bytes"
  int64_t vocab_size = 0;
  int64_t max_id = -1;  // -1: no tokens
  int64_t tokens = 0, documents = 0;
  bool has_mask = false;
};

class TokenFile final : public TokenStore {
 public:
  static constexpr int64_t kCheckedWhole = int64_t{256} << 20;  // bytes of an index

  explicit TokenFile(const std::filesystem::path& prefix);

  int64_t tokens() const override { return tokens_; }
  int64_t documents() const override { return documents_; }
  int64_t document_end(int64_t document) const override;
  void read(int64_t first, int64_t vocab_size, std::span<int32_t> out) const override;
  bool has_mask() const override { return mask_.has_value(); }
  void read_mask(int64_t first, std::span<uint8_t> out) const override;
  void check_unchanged() const override;
  int64_t bytes() const override;
  std::string_view kind() const override { return name_of(type_); }
  std::string fingerprint() const override;

  TokenType type() const { return type_; }
  int64_t sequences() const { return sequences_; }
  const std::optional<TokenFileNote>& note() const { return note_; }

 private:
  template <class T>
  T index_at(int64_t offset) const;  // unaligned
  int32_t length_of(int64_t sequence) const;
  int64_t offset_of(int64_t sequence) const;
  int64_t first_sequence_of(int64_t document) const;
  void read_header();
  void check_ends() const;
  void check_whole() const;
  void read_note(const std::filesystem::path& path);
  void open_mask(const std::filesystem::path& path);

  MappedFile index_, bin_;
  std::optional<MappedFile> mask_;  // a byte a token
  TokenType type_ = TokenType::U16;
  int64_t sequences_ = 0, documents_ = 0, tokens_ = 0;
  std::optional<TokenFileNote> note_;
};

}  // namespace tessera
