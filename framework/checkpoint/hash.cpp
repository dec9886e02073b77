// SPDX-License-Identifier: Apache-2.0
#include "framework/checkpoint/hash.h"

#include <fmt/core.h>
#include <xxhash.h>

#include <charconv>

#include "framework/base/check.h"

namespace tessera {
namespace {

Digest from_xxh(const XXH128_hash_t& hash) {
  return {.high = hash.high64, .low = hash.low64};
}

uint64_t word_from_hex(std::string_view hex) {
  uint64_t word = 0;
  for (const char c : hex) {
    const bool known = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
    CHECK_AS(ExitCode::Data, known, "'{}' is not a checksum of {} hexadecimal digits", hex, kDigestHexLength);
  }
  std::from_chars(hex.data(), hex.data() + hex.size(), word, 16);
  return word;
}

}  // namespace

std::string to_hex(const Digest& digest) {
  return fmt::format("{:016x}{:016x}", digest.high, digest.low);
}

Digest digest_from_hex(std::string_view hex) {
  CHECK_AS(ExitCode::Data, hex.size() == kDigestHexLength, "'{}' is not a checksum of {} hexadecimal digits",
           hex, kDigestHexLength);
  return {.high = word_from_hex(hex.substr(0, 16)), .low = word_from_hex(hex.substr(16))};
}

struct Hasher::State {
  XXH3_state_t* xxh = XXH3_createState();
  State() {
    CHECK(xxh != nullptr, "no memory for a checksum state");
    XXH3_128bits_reset(xxh);
  }
  ~State() { XXH3_freeState(xxh); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
};

Hasher::Hasher() : state_(std::make_unique<State>()) {}
Hasher::~Hasher() = default;
Hasher::Hasher(Hasher&&) noexcept = default;
Hasher& Hasher::operator=(Hasher&&) noexcept = default;

void Hasher::add(std::span<const std::byte> bytes) {
  XXH3_128bits_update(state_->xxh, bytes.data(), bytes.size());
}

Digest Hasher::digest() const {
  return from_xxh(XXH3_128bits_digest(state_->xxh));
}

Digest digest_of(std::string_view bytes) {
  return from_xxh(XXH3_128bits(bytes.data(), bytes.size()));
}

}  // namespace tessera
