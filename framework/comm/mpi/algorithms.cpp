// SPDX-License-Identifier: Apache-2.0
#include "framework/comm/mpi/algorithms.h"

#include <numeric>

#include "framework/base/check.h"
#include "framework/comm/mpi/piece_stream.h"
#include "framework/comm/mpi/reduction.h"

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
  const Pieces pieces =
      pieces_of(tensor.elements(), tensor.dtype(), operation.group().size() - 1, operation.group().sizes);
  return std::make_unique<PieceStream>(operation, kind, peer, Phase::Data, pieces.count(),
                                       part_places(tensor, pieces), std::move(moved));
}

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
    case TrafficKind::ReduceScatter:
      return make_reduction(operation);
    case TrafficKind::AllGather:
      return std::make_unique<AllGather>(operation);
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
