// SPDX-License-Identifier: Apache-2.0
// Messages between two ranks of a group, matched in the order of the calls. One at a time in each direction
// between two ranks: a header that says what comes, then the pieces.
#include "framework/base/check.h"
#include "framework/comm/mpi/algorithms.h"
#include "framework/comm/mpi/piece_stream.h"

namespace tessera::messages {

namespace {

class Message final : public ChannelMessage {
 public:
  Message(Operation& operation, const PeerOp& half) : operation_(operation), half_(half) {
    operation_.open_part();
  }

  void begin() override {
    const auto header = std::span(&header_, 1);
    if (half_.kind == PeerOp::Kind::Send) {
      header_ = header_of(half_.tensor.describe(), half_.tensor.bytes());
      operation_.send(std::as_bytes(header), half_.peer, Phase::Exchange, [] {});
      stream();
    } else {
      operation_.receive(std::as_writable_bytes(header), half_.peer, Phase::Exchange, [this](int64_t) {
        const Group& group = operation_.group();
        CHECK(header_.text_view() == half_.tensor.describe() && header_.bytes == half_.tensor.bytes(),
              "messages on '{}' differ: {} sends {}, {} makes {}", group.name, group.rank_text(half_.peer),
              header_.text_view(), group.rank_text(group.rank), operation_.text());
        operation_.engine().mark_present(operation_, half_.peer);
        stream();
      });
    }
  }

 private:
  void stream() {
    const Pieces pieces =
        pieces_of(half_.tensor.elements(), half_.tensor.dtype(), 1, operation_.group().sizes);
    if (pieces.count() == 0) return finish();
    stream_ =
        std::make_unique<PieceStream>(operation_, half_.kind, half_.peer, Phase::Exchange, pieces.count(),
                                      part_places(half_.tensor, pieces), [this, pieces](int64_t piece) {
                                        if (piece + 1 == pieces.count()) finish();
                                      });
    stream_->allow_all();
  }

  void finish() {
    operation_.engine().mark_present(operation_, half_.peer);
    auto& channel = operation_.group().channels[{half_.peer, half_.kind}];
    channel.pop_front();
    if (!channel.empty()) channel.front()->begin();
    operation_.close_part();
  }

  Operation& operation_;
  const PeerOp half_;
  Header header_{};
  std::unique_ptr<PieceStream> stream_;
};

class Exchange final : public Algorithm {
 public:
  explicit Exchange(Operation& operation) : operation_(operation) {}

  void begin() override {
    for (const PeerOp& half : operation_.call().operations)
      messages_.push_back(std::make_unique<Message>(operation_, half));
    for (size_t i = 0; i < messages_.size(); ++i) {
      const PeerOp& half = operation_.call().operations[i];
      auto& channel = operation_.group().channels[{half.peer, half.kind}];
      channel.push_back(messages_[i].get());
      if (channel.size() == 1) channel.front()->begin();
    }
  }

 private:
  Operation& operation_;
  std::vector<std::unique_ptr<Message>> messages_;
};

}  // namespace

std::unique_ptr<Algorithm> make_exchange(Operation& operation) {
  return std::make_unique<Exchange>(operation);
}

}  // namespace tessera::messages
