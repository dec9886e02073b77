// SPDX-License-Identifier: Apache-2.0
#include "framework/dataset/fingerprint.h"

#include <xxhash.h>

#include <algorithm>
#include <vector>

#include "framework/base/check.h"

namespace tessera {

struct Fingerprint::State {
  XXH3_state_t* hash = XXH3_createState();
  State() { XXH3_64bits_reset(hash); }
  ~State() { XXH3_freeState(hash); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
};

Fingerprint::Fingerprint() : state_(std::make_unique<State>()) {}
Fingerprint::~Fingerprint() = default;

void Fingerprint::add(std::span<const std::byte> bytes) {
  XXH3_64bits_update(state_->hash, bytes.data(), bytes.size());
}

// The length goes first, so that ("ab", "c") and ("a", "bc") differ.
void Fingerprint::add(std::string_view text) {
  add(static_cast<int64_t>(text.size()));
  add(std::as_bytes(std::span(text)));
}

void Fingerprint::add(int64_t number) {
  add(std::as_bytes(std::span(&number, 1)));
}

void Fingerprint::add_content(const File& file) {
  const int64_t size = file.size();
  add(size);
  std::vector<std::byte> buffer;
  const auto add_range = [&](int64_t begin, int64_t end) {
    constexpr int64_t kChunk = int64_t{1} << 20;
    for (int64_t at = begin; at < end; at += kChunk) {
      buffer.resize(static_cast<size_t>(std::min(kChunk, end - at)));
      file.read(at, buffer);
      add(std::span<const std::byte>(buffer));
    }
  };
  if (size < kWholeBelow) {
    add_range(0, size);
  } else {
    add_range(0, kEnd);
    add_range(size - kEnd, size);
  }
}

std::string Fingerprint::digits() const {
  return fmt::format("{:016x}", XXH3_64bits_digest(state_->hash));
}

}  // namespace tessera
