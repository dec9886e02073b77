// SPDX-License-Identifier: Apache-2.0
#include "framework/tokenizer/byte_tokenizer.h"

#include <algorithm>

#include "framework/base/check.h"

namespace tessera {

void ByteTokenizer::encode(std::string_view text, std::vector<int32_t>& ids) const {
  const size_t before = ids.size();
  ids.resize(before + text.size());
  std::transform(text.begin(), text.end(), ids.begin() + static_cast<std::ptrdiff_t>(before),
                 [](char c) { return static_cast<int32_t>(static_cast<unsigned char>(c)); });
}

std::string ByteTokenizer::decode(std::span<const int32_t> ids) const {
  std::string text;
  text.reserve(ids.size());
  for (const int32_t id : ids) {
    CHECK_AS(ExitCode::Data, id >= 0 && id < kVocabSize, "token {} is not one of the {} byte tokens", id,
             kVocabSize);
    if (id != kEndOfDocument) text.push_back(static_cast<char>(id));
  }
  return text;
}

size_t ByteTokenizer::cut(std::string_view text, size_t limit) const {
  return std::min(text.size(), limit);
}

}  // namespace tessera
