// SPDX-License-Identifier: Apache-2.0
#include "framework/backends/cpu/element.h"

namespace tessera::cpu {

void widen(const BFloat16* from, float* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(from[i]);
}
void widen(const Float16* from, float* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(from[i]);
}
void narrow(const float* from, BFloat16* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = BFloat16(from[i]);
}
void narrow(const float* from, Float16* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = Float16(from[i]);
}

}  // namespace tessera::cpu
