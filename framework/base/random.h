// SPDX-License-Identifier: Apache-2.0
// Random numbers as functions of a key and a counter: no state, nothing to restore, the same on every
// rank and layout. Every use has a key of its own (seed mixed with a purpose), so that one stream cannot
// move another.
#pragma once
#include <array>
#include <cstdint>
#include <string_view>

namespace tessera {

struct RandomKey {
  uint64_t value = 0;
};

// A key for one purpose: the seed mixed with XXH3 of the name.
RandomKey random_key(uint64_t seed, std::string_view purpose);
RandomKey mixed(RandomKey key, uint64_t salt);

// Philox 4x32-10: 128 bits for the 128-bit counter (low, high).
std::array<uint32_t, 4> philox(RandomKey key, uint64_t low, uint64_t high = 0);

// Standard normal from 32 random bits: the inverse distribution function at (bits + 1/2) / 2^32 by
// rational approximations (Wichura, Applied Statistics 37, 1988, algorithm AS 241), in double with only
// + - * / sqrt and an own logarithm, so that every compiler and device gives the same bits.
float normal_from_bits(uint32_t bits);

// A bijection of [0, count) for each key, evaluated at one index in constant time: a Feistel network on
// the next power of four, walked until it lands inside.
uint64_t permuted(uint64_t index, uint64_t count, RandomKey key);

}  // namespace tessera
