// SPDX-License-Identifier: Apache-2.0
// How transports over messages cut long tensors: in pieces of at most 4 MiB, of which two are under way at a
// time. This bounds the staging memory of reductions, keeps messages far below what one message can carry,
// and lets a reduction work on one piece while the next arrives.
#pragma once
#include <algorithm>
#include <cstdint>

#include "framework/mesh/shard_spec.h"
#include "framework/tensor/dtype.h"

namespace tessera {

constexpr int64_t kPiecesUnderWay = 2;
constexpr int64_t kLargestPiece = int64_t{4} << 20;
// All peers' pieces that a reduction holds stay below this, as long as pieces keep 64 KiB.
constexpr int64_t kStagingLimit = int64_t{64} << 20;
constexpr int64_t kSmallestPiece = int64_t{64} << 10;

// How a count of elements is cut.
struct Pieces {
  int64_t elements = 0, each = 1;
  int64_t count() const { return (elements + each - 1) / each; }
  Range range(int64_t piece) const { return {piece * each, std::min(elements, (piece + 1) * each)}; }
};

// The same on all ranks of a group.
inline Pieces pieces_of(int64_t elements, DType dtype, int ranks) {
  const int64_t fair = kStagingLimit / (kPiecesUnderWay * std::max(1, ranks - 1));
  return {elements, std::clamp(fair, kSmallestPiece, kLargestPiece) / size_of(dtype)};
}

}  // namespace tessera
