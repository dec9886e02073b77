// SPDX-License-Identifier: Apache-2.0
// Pieces of tensors on their way to or from one rank, in order.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "framework/comm/mpi/operation.h"
#include "framework/comm/pieces.h"

namespace tessera::messages {

class PieceStream {
 public:
  using Place = std::function<Tensor(int64_t piece)>;  // where it is, or where it goes
  using Moved = std::function<void(int64_t piece)>;    // called in the order of the pieces
  // A part of the operation until the last of `count` pieces has moved.
  PieceStream(Operation& operation, PeerOp::Kind kind, int peer, Phase phase, int64_t count, Place place,
              Moved moved);
  PieceStream(const PieceStream&) = delete;
  PieceStream& operator=(const PieceStream&) = delete;

  void allow(int64_t pieces);  // pieces [0, pieces) may move
  void allow_all() { allow(count_); }

 private:
  void post();
  void post_piece(int64_t piece);
  void piece_done(int64_t piece);

  Operation& operation_;
  const PeerOp::Kind kind_;
  const int peer_;
  const Phase phase_;
  const int64_t count_;
  const Place place_;
  const Moved moved_;
  int64_t allowed_ = 0, posted_ = 0, moved_count_ = 0;
  const int64_t under_way_;
  // By piece modulo their number under way.
  std::vector<bool> finished_;
  std::vector<std::vector<std::byte>> staging_;  // none where the host can use the tensor's address
};

// Whole tensors: piece k of `tensor` is its k-th part.
PieceStream::Place part_places(const Tensor& tensor, Pieces pieces);

}  // namespace tessera::messages
