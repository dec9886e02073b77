// SPDX-License-Identifier: Apache-2.0
// JSONL as a source of documents: one JSON object a line, its text under one key.
#pragma once
#include <memory>
#include <string>
#include <string_view>

namespace tessera {

// For one thread. Memory is a few times that of the longest line, and of a line above 16 MiB its own size.
class JsonTextReader {
 public:
  JsonTextReader();
  ~JsonTextReader();

  // The string under `key` of the object that `line` is. On failure `reason` says what is wrong. Any error in
  // the line is a failure, also in what is not asked for, and so is a key that stands twice, text that is no
  // valid UTF-8, and a lone surrogate.
  bool read(std::string_view line, std::string_view key, std::string& text, std::string& reason);

 private:
  struct Parser;
  std::unique_ptr<Parser> parser_;
};

}  // namespace tessera
