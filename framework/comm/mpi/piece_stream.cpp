// SPDX-License-Identifier: Apache-2.0
#include "framework/comm/mpi/piece_stream.h"

#include "framework/base/check.h"

namespace tessera::messages {

PieceStream::Place part_places(const Tensor& tensor, Pieces pieces) {
  return [tensor, pieces](int64_t piece) {
    const Range range = pieces.range(piece);
    return tensor.narrow(range.begin, range.size());
  };
}

PieceStream::PieceStream(Operation& operation, PeerOp::Kind kind, int peer, Phase phase, int64_t count,
                         Place place, Moved moved)
    : operation_(operation),
      kind_(kind),
      peer_(peer),
      phase_(phase),
      count_(count),
      place_(std::move(place)),
      moved_(std::move(moved)),
      under_way_(std::min(count, operation.group().sizes.under_way)),
      finished_(static_cast<size_t>(under_way_)),
      staging_(operation.backend().host_addressable() ? 0 : finished_.size()) {
  if (count_ > 0) operation_.open_part();
}

void PieceStream::allow(int64_t pieces) {
  allowed_ = std::max(allowed_, std::min(pieces, count_));
  post();
}

void PieceStream::post() {
  while (posted_ < allowed_ && posted_ < moved_count_ + under_way_) post_piece(posted_++);
}

void PieceStream::post_piece(int64_t piece) {
  const Tensor tensor = place_(piece);
  Backend& backend = operation_.backend();
  const auto bytes = static_cast<size_t>(tensor.bytes());
  std::span<std::byte> memory;
  if (backend.host_addressable()) {
    memory = {static_cast<std::byte*>(tensor.address()), bytes};
  } else {
    std::vector<std::byte>& staging = staging_[static_cast<size_t>(piece % under_way_)];
    staging.resize(bytes);
    memory = staging;
  }
  if (kind_ == PeerOp::Kind::Send) {
    if (!backend.host_addressable()) backend.download(tensor, memory);
    operation_.count_sent(tensor.bytes());
    operation_.send(memory, peer_, phase_, [this, piece] { piece_done(piece); });
    return;
  }
  operation_.receive(memory, peer_, phase_, [this, piece, tensor, memory](int64_t received) {
    CHECK(received == tensor.bytes(), "{} on '{}': {} sent {} bytes of a piece of {}", operation_.text(),
          operation_.group().name, operation_.group().rank_text(peer_), received, tensor.bytes());
    if (!operation_.backend().host_addressable()) operation_.backend().upload(memory, tensor);
    piece_done(piece);
  });
}

void PieceStream::piece_done(int64_t piece) {
  finished_[static_cast<size_t>(piece % under_way_)] = true;
  while (moved_count_ < posted_ && finished_[static_cast<size_t>(moved_count_ % under_way_)]) {
    finished_[static_cast<size_t>(moved_count_ % under_way_)] = false;
    const int64_t moved = moved_count_++;
    if (moved_) moved_(moved);
  }
  post();
  if (moved_count_ == count_) operation_.close_part();
}

}  // namespace tessera::messages
