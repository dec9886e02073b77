// SPDX-License-Identifier: Apache-2.0
// A flat tensor on its way to or from one rank, in pieces of at most 4 MiB of which two are under way at a
// time. This bounds the staging memory, keeps messages far below what one message can carry, and lets a
// reduction work on one piece while the next arrives.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "framework/comm/mpi/operation.h"
#include "framework/mesh/shard_spec.h"

namespace tessera::messages {

constexpr int64_t kWindow = 2;  // pieces under way
constexpr int64_t kLargestPiece = int64_t{4} << 20;
// All peers' pieces that a reduction holds at a time stay below this, as long as pieces keep 64 KiB.
constexpr int64_t kStagingLimit = int64_t{64} << 20;

// How a count of elements is cut.
struct Pieces {
  int64_t elements = 0, each = 1;
  int64_t count() const { return (elements + each - 1) / each; }
  Range range(int64_t piece) const { return {piece * each, std::min(elements, (piece + 1) * each)}; }
};

// The same on all ranks of a group.
inline int64_t piece_elements(DType dtype, int ranks) {
  const int64_t bytes =
      std::clamp(kStagingLimit / (kWindow * std::max(1, ranks - 1)), int64_t{64} << 10, kLargestPiece);
  return bytes / size_of(dtype);
}

class PieceStream {
 public:
  using Place = std::function<Tensor(int64_t piece)>;  // where it is, or where it goes
  using Moved = std::function<void(int64_t piece)>;    // called in the order of the pieces
  // A part of the operation until its last piece has moved.
  PieceStream(Operation& operation, PeerOp::Kind kind, int peer, Phase phase, Pieces pieces, Place place,
              Moved moved);
  PieceStream(const PieceStream&) = delete;
  PieceStream& operator=(const PieceStream&) = delete;

  void allow(int64_t pieces);  // pieces [0, pieces) may move
  void allow_all() { allow(pieces_.count()); }

 private:
  void post();
  void post_piece(int64_t piece);
  void piece_done(int64_t piece);

  Operation& operation_;
  const PeerOp::Kind kind_;
  const int peer_;
  const Phase phase_;
  const Pieces pieces_;
  const Place place_;
  const Moved moved_;
  int64_t allowed_ = 0, posted_ = 0, moved_count_ = 0;
  std::array<bool, kWindow> finished_{};                 // by piece modulo the window
  std::array<std::vector<std::byte>, kWindow> staging_;  // where the host cannot use the tensor's address
};

// Whole tensors: piece k of `tensor` is its k-th part.
PieceStream::Place part_places(const Tensor& tensor, Pieces pieces);

}  // namespace tessera::messages
