// SPDX-License-Identifier: Apache-2.0
// How transports over messages cut long tensors: in pieces, of which a few are under way at a time. This
// bounds the staging memory of reductions, keeps messages far below what one message can carry, and lets a
// reduction work on one piece while the next arrives.
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>

#include "framework/mesh/shard_spec.h"
#include "framework/tensor/dtype.h"

namespace tessera {

struct PieceSizes {
  int64_t largest;    // bytes
  int64_t under_way;  // pieces between two ranks, one way
};
// Where ranks share memory, few large pieces.
constexpr PieceSizes kPiecesOnANode{int64_t{4} << 20, 2};
// Between nodes many that are sent at once: MPI asks the receiver before it sends more than 64 KiB over TCP,
// and on a busy connection the question and the answer each wait behind the data that is under way. 16 MiB
// over 200 Mbit/s took 1.40 s in pieces of 4 MiB and takes 0.71 s in these; on one node 14 ms and 100 ms
// (bench comm).
constexpr PieceSizes kPiecesBetweenNodes{int64_t{60} << 10, 32};

// By the nodes of a group's ranks.
inline PieceSizes piece_sizes(std::span<const int> nodes) {
  const bool one = std::all_of(nodes.begin(), nodes.end(), [&](int node) { return node == nodes.front(); });
  return one ? kPiecesOnANode : kPiecesBetweenNodes;
}

// All peers' pieces that a reduction holds stay below this, as long as pieces keep 4 KiB.
constexpr int64_t kStagingLimit = int64_t{64} << 20;
constexpr int64_t kSmallestPiece = int64_t{4} << 10;

// How a count of elements is cut.
struct Pieces {
  int64_t elements = 0, each = 1;
  int64_t count() const { return (elements + each - 1) / each; }
  Range range(int64_t piece) const { return {piece * each, std::min(elements, (piece + 1) * each)}; }
};

// The same on all ranks of a group, of which a rank holds the pieces of at most `peers` others.
inline Pieces pieces_of(int64_t elements, DType dtype, int peers, const PieceSizes& sizes) {
  const int64_t fair = kStagingLimit / (sizes.under_way * std::max(1, peers));
  return {elements, std::clamp(fair, kSmallestPiece, sizes.largest) / size_of(dtype)};
}

}  // namespace tessera
