// SPDX-License-Identifier: Apache-2.0
// Which instruction sets the vector kernels are compiled for; include before any Highway header. One
// binary carries all of them and picks at run time: AVX-512, AVX2 with FMA, and a scalar baseline (NEON on
// Arm). Kernels keep one rule: an output element sees the same operations in the same order on each of
// them, fused multiply-add included, so that all give the same bits.
#pragma once

// The scalar baseline is chosen on every compiler: the emulated 128-bit one miscompiles on GCC before 12.3.
#define HWY_BROKEN_EMU128 1
// Later Highways (1.0.7 of Ubuntu 24.04) know SSE2, bit 14, as a baseline of its own and AVX-512 of two more
// processors, bits 4 and 6; earlier ones leave these bits free.
#define HWY_DISABLED_TARGETS                                                                            \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | (1LL << 14) | \
   (1LL << 6) | (1LL << 4))
