// SPDX-License-Identifier: Apache-2.0
// Short words with their ids: text is mostly words that came before. A fixed number of lines of 64 bytes,
// each word with one place, where the latest word stays: memory does not grow, and a lookup touches one line.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "framework/tokenizer/flat_map.h"

namespace tessera {

class WordCache {
 public:
  static constexpr size_t kLongestWord = 30, kMostIds = 8;

  WordCache() : lines_(kLines) {}

  // Adds the ids of `word` (1 to kLongestWord bytes) to `ids` and returns true when it is here.
  bool append(std::string_view word, std::vector<int32_t>& ids) {
    key_.fill(0);
    std::memcpy(key_.data(), word.data(), word.size());
    key_[kLongestWord] = static_cast<char>(word.size());
    line_ = &lines_[hash() & (kLines - 1)];
    if (std::memcmp(line_->key.data(), key_.data(), kLongestWord + 1) != 0) return false;
    ids.insert(ids.end(), line_->ids.begin(), line_->ids.begin() + line_->key[kLongestWord + 1]);
    return true;
  }

  // Keeps the ids of the word that append() did not find just now, if they are few enough.
  void keep(std::span<const int32_t> ids) {
    if (ids.size() > kMostIds) return;
    line_->key = key_;
    line_->key[kLongestWord + 1] = static_cast<char>(ids.size());
    std::copy(ids.begin(), ids.end(), line_->ids.begin());
  }

 private:
  static constexpr size_t kLines = size_t{1} << 16;

  struct alignas(64) Line {
    std::array<char, kLongestWord + 2> key{};  // padded with zeros, then length of the word, number of ids
    std::array<int32_t, kMostIds> ids{};
  };

  uint64_t hash() const {
    std::array<uint64_t, 4> part;
    std::memcpy(part.data(), key_.data(), sizeof(part));
    return mixed_bits(part[0] * 0x9E3779B97F4A7C15ULL ^ mixed_bits(part[1] ^ part[2] * 3 ^ part[3] * 5));
  }

  std::vector<Line> lines_;
  std::array<char, kLongestWord + 2> key_{};
  Line* line_ = nullptr;
};

}  // namespace tessera
