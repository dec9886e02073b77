// SPDX-License-Identifier: Apache-2.0
// Where things stand in a Megatron .idx file: a header of 34 bytes, then without padding the sequence
// lengths (int32), their byte offsets in the .bin (int64) and the first sequence of each document, with the
// number of sequences as the last entry (int64). Little-endian. Nothing is aligned: copy, do not cast.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string_view>

namespace tessera::token_file_layout {

inline constexpr std::string_view kMagic("MMIDIDX\0\0", 9);
inline constexpr uint64_t kVersion = 1;
inline constexpr int64_t kVersionAt = 9;      // uint64
inline constexpr int64_t kTypeAt = 17;        // uint8
inline constexpr int64_t kSequencesAt = 18;   // uint64
inline constexpr int64_t kBoundariesAt = 26;  // uint64: documents + 1
inline constexpr int64_t kHeaderBytes = 34;

inline std::filesystem::path with_suffix(const std::filesystem::path& prefix, std::string_view suffix) {
  return std::filesystem::path(prefix) += suffix;
}

}  // namespace tessera::token_file_layout
