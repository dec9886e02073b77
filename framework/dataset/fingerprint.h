// SPDX-License-Identifier: Apache-2.0
// A short mark of a source's content, so that a resumed run notices that its data changed. Small data is
// hashed whole; of large data the size and both ends are, so that opening it stays fast.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "framework/dataset/file.h"

namespace tessera {

class Fingerprint {
 public:
  static constexpr int64_t kWholeBelow = int64_t{32} << 20;  // bytes that are hashed whole
  static constexpr int64_t kEnd = int64_t{64} << 10;         // bytes of each end otherwise

  Fingerprint();
  ~Fingerprint();
  void add(std::span<const std::byte> bytes);
  void add(std::string_view text);
  void add(int64_t number);
  void add_content(const File& file);
  std::string digits() const;  // 16 hexadecimal digits of XXH3

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera
