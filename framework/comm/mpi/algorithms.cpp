// SPDX-License-Identifier: Apache-2.0
#include "framework/comm/mpi/algorithms.h"

#include <numeric>

#include "framework/base/check.h"
#include "framework/comm/mpi/piece_stream.h"
#include "framework/comm/reduce_terms.h"
#include "framework/ops/memory.h"

namespace tessera::messages {

namespace {

using Kind = PeerOp::Kind;
using Streams = std::vector<std::unique_ptr<PieceStream>>;

size_t at(int rank) {
  return static_cast<size_t>(rank);
}

// Everything of `tensor` to or from a peer.
std::unique_ptr<PieceStream> whole_stream(Operation& operation, Kind kind, int peer, const Tensor& tensor,
                                          PieceStream::Moved moved = {}) {
  const Pieces pieces = pieces_of(tensor.elements(), tensor.dtype(), operation.group().size());
  return std::make_unique<PieceStream>(operation, kind, peer, Phase::Data, pieces,
                                       part_places(tensor, pieces), std::move(moved));
}

// Sums the pieces of this rank's chunk: its own term, and two pieces of every other rank's in staging.
class ChunkReducer {
 public:
  ChunkReducer(Operation& operation, const Tensor& own, const Tensor& out, Pieces pieces,
               std::function<void(int64_t piece)> reduced)
      : operation_(operation),
        own_(own),
        out_(out),
        pieces_(pieces),
        reduced_(std::move(reduced)),
        slots_(at(operation.group().size())),
        streams_(slots_.size()) {
    const int64_t held = pieces.elements_under_way();
    for (int r = 0; held > 0 && r < operation.group().size(); ++r)
      if (r != operation.group().rank) slots_[at(r)] = empty(operation.backend(), own.dtype(), {held});
  }

  void meet(int peer) {
    streams_[at(peer)] = std::make_unique<PieceStream>(
        operation_, Kind::Receive, peer, Phase::Data, pieces_,
        [this, peer](int64_t piece) { return slot(peer, piece); }, [this](int64_t piece) { arrived(piece); });
    streams_[at(peer)]->allow(done_ + kPiecesUnderWay);
  }
  int64_t done() const { return done_; }

 private:
  Tensor slot(int peer, int64_t piece) const {
    return slots_[at(peer)].narrow(piece % kPiecesUnderWay * pieces_.each, pieces_.range(piece).size());
  }

  // The pieces of one peer arrive in order, so the pieces are complete in order as well.
  void arrived(int64_t piece) {
    if (++count_[at(static_cast<int>(piece % kPiecesUnderWay))] < operation_.group().size() - 1) return;
    count_[at(static_cast<int>(piece % kPiecesUnderWay))] = 0;
    const Range range = pieces_.range(piece);
    std::vector<Tensor> terms;
    for (int r = 0; r < operation_.group().size(); ++r)
      terms.push_back(r == operation_.group().rank ? own_.narrow(range.begin, range.size()) : slot(r, piece));
    reduce_terms(operation_.backend(), terms, out_.narrow(range.begin, range.size()), operation_.call().op);
    ++done_;
    for (const auto& stream : streams_)
      if (stream) stream->allow(done_ + kPiecesUnderWay);
    if (reduced_) reduced_(piece);
  }

  Operation& operation_;
  const Tensor own_, out_;
  const Pieces pieces_;
  const std::function<void(int64_t)> reduced_;
  std::vector<Tensor> slots_;  // by rank
  Streams streams_;            // by rank
  std::array<int, kPiecesUnderWay> count_{};
  int64_t done_ = 0;
};

class ReduceScatter final : public Algorithm {
 public:
  explicit ReduceScatter(Operation& operation)
      : operation_(operation),
        send_(operation.call().send),
        count_(operation.call().receive.elements()),
        reducer_(operation, chunk(operation.group().rank), operation.call().receive,
                 pieces_of(count_, send_.dtype(), operation.group().size()), {}) {}

  int64_t bytes_to(int) const override { return count_ * size_of(send_.dtype()); }
  int64_t bytes_from(int) const override { return count_ * size_of(send_.dtype()); }
  void meet(int peer, const Header&) override {
    reducer_.meet(peer);
    sends_.push_back(whole_stream(operation_, Kind::Send, peer, chunk(peer)));
    sends_.back()->allow_all();
  }

 private:
  Tensor chunk(int rank) const { return send_.narrow(rank * count_, count_); }

  Operation& operation_;
  const Tensor send_;
  const int64_t count_;
  ChunkReducer reducer_;
  Streams sends_;
};

// Reduce-scatter of chunks, and behind it the gather of what is reduced, piece by piece.
class AllReduce final : public Algorithm {
 public:
  explicit AllReduce(Operation& operation)
      : operation_(operation),
        data_(operation.call().send),
        sums_out_(at(operation.group().size())),
        reducer_(operation, chunk(operation.group().rank), chunk(operation.group().rank),
                 chunk_pieces(operation.group().rank), [this](int64_t piece) {
                   for (const auto& stream : sums_out_)
                     if (stream) stream->allow(piece + 1);
                 }) {}

  int64_t bytes_to(int peer) const override { return chunk(peer).bytes(); }
  int64_t bytes_from(int) const override { return chunk(operation_.group().rank).bytes(); }

  void meet(int peer, const Header&) override {
    reducer_.meet(peer);
    const Pieces own = chunk_pieces(operation_.group().rank), theirs = chunk_pieces(peer);
    sums_out_[at(peer)] =
        std::make_unique<PieceStream>(operation_, Kind::Send, peer, Phase::Gather, own,
                                      part_places(chunk(operation_.group().rank), own), PieceStream::Moved{});
    sums_out_[at(peer)]->allow(reducer_.done());
    // The sum of a piece lands where the term was sent from, so only after that has left.
    sums_in_.push_back(std::make_unique<PieceStream>(operation_, Kind::Receive, peer, Phase::Gather, theirs,
                                                     part_places(chunk(peer), theirs), PieceStream::Moved{}));
    terms_out_.push_back(
        whole_stream(operation_, Kind::Send, peer, chunk(peer),
                     [stream = sums_in_.back().get()](int64_t piece) { stream->allow(piece + 1); }));
    terms_out_.back()->allow_all();
  }

 private:
  Range range(int rank) const { return part_of(data_.elements(), operation_.group().size(), rank); }
  Tensor chunk(int rank) const { return data_.narrow(range(rank).begin, range(rank).size()); }
  Pieces chunk_pieces(int rank) const {
    return pieces_of(range(rank).size(), data_.dtype(), operation_.group().size());
  }

  Operation& operation_;
  const Tensor data_;
  Streams sums_out_;  // by rank
  ChunkReducer reducer_;
  Streams terms_out_, sums_in_;
};

class AllGather final : public Algorithm {
 public:
  explicit AllGather(Operation& operation) : operation_(operation), shard_(operation.call().send) {}

  void begin() override { copy_unless_same(operation_.backend(), shard_, part(operation_.group().rank)); }
  int64_t bytes_to(int) const override { return shard_.bytes(); }
  int64_t bytes_from(int) const override { return shard_.bytes(); }
  void meet(int peer, const Header&) override {
    streams_.push_back(whole_stream(operation_, Kind::Receive, peer, part(peer)));
    streams_.back()->allow_all();
    streams_.push_back(whole_stream(operation_, Kind::Send, peer, shard_));
    streams_.back()->allow_all();
  }

 private:
  Tensor part(int rank) const {
    return operation_.call().receive.narrow(rank * shard_.elements(), shard_.elements());
  }

  Operation& operation_;
  const Tensor shard_;
  Streams streams_;
};

class AllToAll final : public Algorithm {
 public:
  explicit AllToAll(Operation& operation) : operation_(operation) {}

  void begin() override {
    const int own = operation_.group().rank;
    CHECK(sent(own).elements() == received(own).elements(),
          "{} on '{}': {} sends {} elements to itself and expects {}", operation_.text(),
          operation_.group().name, operation_.group().rank_text(own), sent(own).elements(),
          received(own).elements());
    copy_unless_same(operation_.backend(), sent(own), received(own));
  }
  int64_t bytes_to(int peer) const override { return sent(peer).bytes(); }
  int64_t bytes_from(int peer) const override { return received(peer).bytes(); }
  void meet(int peer, const Header&) override {
    streams_.push_back(whole_stream(operation_, Kind::Receive, peer, received(peer)));
    streams_.back()->allow_all();
    streams_.push_back(whole_stream(operation_, Kind::Send, peer, sent(peer)));
    streams_.back()->allow_all();
  }

 private:
  static Tensor part(const Tensor& tensor, const std::vector<int64_t>& counts, int rank) {
    return tensor.narrow(std::accumulate(counts.begin(), counts.begin() + rank, int64_t{0}),
                         counts[at(rank)]);
  }
  Tensor sent(int peer) const { return part(operation_.call().send, operation_.call().send_counts, peer); }
  Tensor received(int peer) const {
    return part(operation_.call().receive, operation_.call().receive_counts, peer);
  }

  Operation& operation_;
  Streams streams_;
};

// A chain from the root: each rank hands a piece on as soon as it has it.
class Broadcast final : public Algorithm {
 public:
  explicit Broadcast(Operation& operation)
      : operation_(operation), data_(operation.call().send), position_(position(operation.group().rank)) {}

  int64_t bytes_to(int peer) const override { return position(peer) == position_ + 1 ? data_.bytes() : 0; }
  int64_t bytes_from(int peer) const override { return position(peer) == position_ - 1 ? data_.bytes() : 0; }
  void meet(int peer, const Header&) override {
    if (position(peer) == position_ + 1) {
      send_ = whole_stream(operation_, Kind::Send, peer, data_);
      position_ == 0 ? send_->allow_all() : send_->allow(here_);
    } else if (position(peer) == position_ - 1) {
      receive_ = whole_stream(operation_, Kind::Receive, peer, data_, [this](int64_t piece) {
        here_ = piece + 1;
        if (send_) send_->allow(here_);
      });
      receive_->allow_all();
    }
  }

 private:
  int position(int rank) const {
    const int size = operation_.group().size();
    return (rank - operation_.call().root + size) % size;
  }

  Operation& operation_;
  const Tensor data_;
  const int position_;
  int64_t here_ = 0;  // pieces
  std::unique_ptr<PieceStream> send_, receive_;
};

class HostGather final : public Algorithm {
 public:
  HostGather(Operation& operation, std::string bytes, std::shared_ptr<std::vector<std::string>> parts)
      : operation_(operation), bytes_(std::move(bytes)), parts_(std::move(parts)) {}

  void begin() override {
    parts_->resize(at(operation_.group().size()));
    (*parts_)[at(operation_.group().rank)] = bytes_;
  }
  int64_t bytes_to(int) const override { return static_cast<int64_t>(bytes_.size()); }
  int64_t bytes_from(int) const override { return -1; }
  void meet(int peer, const Header& header) override {
    if (!bytes_.empty()) {
      operation_.count_sent(static_cast<int64_t>(bytes_.size()));
      operation_.send(std::as_bytes(std::span(bytes_)), peer, Phase::Data, [] {});
    }
    if (header.bytes == 0) return;
    std::string& part = (*parts_)[at(peer)];
    part.resize(static_cast<size_t>(header.bytes));
    operation_.receive(
        std::as_writable_bytes(std::span(part)), peer, Phase::Data, [&header](int64_t received) {
          CHECK(received == header.bytes, "{} host bytes where the header says {}", received, header.bytes);
        });
  }

 private:
  Operation& operation_;
  const std::string bytes_;
  const std::shared_ptr<std::vector<std::string>> parts_;
};

}  // namespace

std::unique_ptr<Algorithm> make_algorithm(Operation& operation) {
  switch (operation.call().kind) {
    case TrafficKind::AllReduce:
      return std::make_unique<AllReduce>(operation);
    case TrafficKind::AllGather:
      return std::make_unique<AllGather>(operation);
    case TrafficKind::ReduceScatter:
      return std::make_unique<ReduceScatter>(operation);
    case TrafficKind::AllToAll:
      return std::make_unique<AllToAll>(operation);
    case TrafficKind::Broadcast:
      return std::make_unique<Broadcast>(operation);
    case TrafficKind::Exchange:
      return make_exchange(operation);
    case TrafficKind::Host:
      break;
  }
  fail(ExitCode::Communication, "{} has no algorithm", operation.text());
}

std::unique_ptr<Algorithm> make_host_gather(Operation& operation, std::string bytes,
                                            std::shared_ptr<std::vector<std::string>> parts) {
  return std::make_unique<HostGather>(operation, std::move(bytes), std::move(parts));
}

}  // namespace tessera::messages
