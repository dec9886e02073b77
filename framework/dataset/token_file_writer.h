// SPDX-License-Identifier: Apache-2.0
// Writer of PREFIX.bin, PREFIX.idx and PREFIX.meta.json, and with a loss mask of PREFIX.mask; the first two
// byte for byte what Megatron's writer gives for the same tokens. Its memory does not grow with tokens or
// documents. Nothing is seen under the final names before finish(), which puts the .idx there last: a reader
// finds whole files or no index.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "framework/dataset/file.h"
#include "framework/dataset/token_type.h"

namespace tessera {

// Values written beside each other in a pending file, through a buffer.
template <class T>
class SpilledArray {
 public:
  explicit SpilledArray(const std::filesystem::path& beside) : pending_(beside) {}
  void push(T value);
  void flush();
  int64_t count() const { return count_; }
  const File& file() { return pending_.file(); }
  // Under the name that it was made beside.
  void publish();

 private:
  static constexpr size_t kBuffered = 16384;
  PendingFile pending_;
  std::vector<T> buffer_;
  int64_t count_ = 0;
};

class TokenFileWriter {
 public:
  // A document longer than `longest_sequence` becomes several sequences: lengths are 32-bit on disk.
  TokenFileWriter(const std::filesystem::path& prefix, std::string tokenizer, int64_t vocab_size,
                  int64_t longest_sequence = INT32_MAX);
  // Every add() comes with a mask. Before the first of them.
  void keep_mask();

  // To the open document; exit 3 for ids outside the vocabulary. `mask` has a 0 or 1 for each id.
  void add(std::span<const int32_t> ids, std::span<const uint8_t> mask = {});
  void end_document();  // without add() before: an empty document
  void finish();

  TokenType type() const { return type_; }
  int64_t tokens() const { return tokens_; }
  int64_t documents() const { return borders_.count(); }
  int64_t trained_tokens() const { return trained_tokens_; }  // those with a 1 in the mask

 private:
  void end_sequence();
  void append(std::span<const int32_t> ids);
  void flush_tokens();
  void write_index(File& index);
  std::string note() const;

  std::filesystem::path prefix_;
  std::string tokenizer_;
  int64_t vocab_size_, longest_sequence_;
  TokenType type_;
  PendingFile bin_;
  std::optional<SpilledArray<uint8_t>> mask_;
  SpilledArray<int32_t> lengths_;  // of each sequence
  SpilledArray<int64_t> borders_;  // sequences up to the end of each document
  std::vector<std::byte> buffer_;
  int64_t sequence_tokens_ = 0;  // of the open sequence
  bool document_has_sequence_ = false;
  int64_t tokens_ = 0, max_id_ = -1, trained_tokens_ = 0;
};

}  // namespace tessera
