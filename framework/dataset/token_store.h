// SPDX-License-Identifier: Apache-2.0
// The tokens of one source as a single sequence with document borders, wherever they lie. Immutable, and
// safe to read from several threads. Positions and counts are in tokens. A document may be empty.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

namespace tessera {

class TokenStore {
 public:
  virtual ~TokenStore() = default;
  virtual int64_t tokens() const = 0;
  virtual int64_t documents() const = 0;
  virtual int64_t document_end(int64_t document) const = 0;  // the position after its last token

  // Fills `out` with the tokens from `first` on. An id outside [0, vocab_size) is an Error (exit 3) that
  // names file, position, id and vocabulary.
  virtual void read(int64_t first, int64_t vocab_size, std::span<int32_t> out) const = 0;

  // Whether only some tokens are to be learned as targets; then read_mask() fills `out` with 1 for those of
  // the tokens from `first` on that are, and 0 for the others.
  virtual bool has_mask() const { return false; }
  virtual void read_mask(int64_t first, std::span<uint8_t> out) const;

  // Throws (exit 3) when a file that is read on the way is not what it was when it was opened.
  virtual void check_unchanged() const {}
  virtual int64_t bytes() const = 0;  // of the files

  virtual std::string_view kind() const = 0;    // "uint16", ..., or "text"
  virtual std::string fingerprint() const = 0;  // 16 hexadecimal digits that change with the content

  int64_t document_begin(int64_t document) const { return document == 0 ? 0 : document_end(document - 1); }
  // The document that holds the token at `position`.
  int64_t document_of(int64_t position) const;
};

}  // namespace tessera
