// SPDX-License-Identifier: Apache-2.0
// Random bits below this keep an element; see DropoutArgs and AttentionDropout.
#pragma once
#include <cmath>
#include <cstdint>

namespace tessera::cpu {

inline uint64_t keep_threshold(double probability) {
  return static_cast<uint64_t>(std::llround((1 - probability) * 0x1p32));
}

}  // namespace tessera::cpu
