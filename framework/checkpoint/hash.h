// SPDX-License-Identifier: Apache-2.0
// Checksums of checkpoints: XXH3 with 128 bits. They find damage, they do not prove who wrote a file.
#pragma once
#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace tessera {

struct Digest {
  uint64_t high = 0, low = 0;
  auto operator<=>(const Digest&) const = default;
};

inline constexpr size_t kDigestHexLength = 32;
std::string to_hex(const Digest& digest);
Digest digest_from_hex(std::string_view hex);  // throws ExitCode::Data

class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(Hasher&&) noexcept;
  Hasher& operator=(Hasher&&) noexcept;
  void add(std::span<const std::byte> bytes);
  Digest digest() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

Digest digest_of(std::string_view bytes);

}  // namespace tessera
