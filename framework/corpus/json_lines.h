// SPDX-License-Identifier: Apache-2.0
// JSONL as a source of documents: one JSON object a line, its text under one key.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "framework/dataset/file.h"

namespace tessera {

// The lines of a file without their ends. Memory is that of the longest line.
class LineReader {
 public:
  explicit LineReader(const std::filesystem::path& path);

  bool next(std::string_view& line);          // valid until the next call; false at the end
  int64_t number() const { return number_; }  // of the line last read, from 1
  int64_t bytes_read() const { return offset_; }

 private:
  File file_;
  int64_t size_, offset_ = 0, number_ = 0;
  std::string buffer_;
  size_t begin_ = 0;    // of what was not given out yet
  size_t scanned_ = 0;  // from here on newlines may be
};

// The string under `key` of the object that `line` is. On failure `reason` says what is wrong. A key that
// stands twice, text that is no valid UTF-8, and lone surrogates are failures.
bool read_json_text(std::string_view line, std::string_view key, std::string& text, std::string& reason);

}  // namespace tessera
