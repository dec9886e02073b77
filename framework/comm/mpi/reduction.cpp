// SPDX-License-Identifier: Apache-2.0
#include "framework/comm/mpi/reduction.h"

#include <algorithm>

#include "framework/comm/mpi/piece_stream.h"
#include "framework/comm/reduce_terms.h"
#include "framework/comm/reduction_lanes.h"
#include "framework/ops/memory.h"

namespace tessera::messages {

namespace {

using Kind = PeerOp::Kind;

// Partial sums come from the children of a chunk into staging, are added into this rank's own part of the
// tensor, and leave for the parent; in an all-reduce the sum comes back the same way. Each chunk counts how
// far each of these has come, and a lane moves a piece when the counter that it waits for has passed it.
class Reduction final : public Algorithm {
 public:
  explicit Reduction(Operation& operation)
      : operation_(operation),
        plan_(*operation.call().plan),
        data_(operation.call().send),
        returns_(operation.call().kind == TrafficKind::AllReduce),
        lanes_(plan_, data_.elements(), data_.dtype(), operation.group().sizes) {
    for (size_t c = 0; c < plan_.chunks.size(); ++c) {
      const ChunkPlace& place = plan_.chunks[c];
      Chunk& chunk = chunks_.emplace_back();
      chunk.pieces = lanes_.pieces[c];
      chunk.arrived.resize(at(chunk.pieces.count()));
      const Range range = plan_.range(data_.elements(), static_cast<int>(c));
      chunk.part = data_.narrow(range.begin, range.size());
      chunk.sum = place.parent < 0 ? (returns_ ? chunk.part : operation.call().receive) : chunk.part;
      if (place.additions.empty()) chunk.reduced = chunk.pieces.count();
    }
    for (const auto& [child, lane] : lanes_.from_children) {
      staging_[child] = empty(operation.backend(), data_.dtype(), {lanes_.held_of(child)});
      for (size_t i = 0; i < lane.size(); ++i)
        if (lane[i].piece == 0) chunks_[at(lane[i].chunk)].lane_starts[child] = static_cast<int64_t>(i);
    }
  }

  int64_t bytes_to(int peer) const override { return bytes_of(lanes_.to_parents, peer); }
  int64_t bytes_from(int peer) const override { return bytes_of(lanes_.from_children, peer); }

  void meet(int peer, const Header&) override {
    open(Kind::Receive, lanes_.from_children, peer, Phase::Data, &Chunk::reduced, lanes_.sizes.under_way);
    open(Kind::Send, lanes_.to_parents, peer, Phase::Data, &Chunk::reduced);
    if (returns_) {
      // The sum of a piece lands where the partial sum left from, so only after that has left.
      open(Kind::Receive, lanes_.from_parents, peer, Phase::Gather, &Chunk::left);
      open(Kind::Send, lanes_.to_children, peer, Phase::Gather, &Chunk::complete);
    }
    advance();
  }

 private:
  struct Chunk {
    Pieces pieces;
    Tensor part;                         // of this rank's tensor
    Tensor sum;                          // where this rank's additions go
    std::map<int, int64_t> lane_starts;  // by child: where in its lane the chunk's pieces begin
    std::vector<size_t> arrived;         // by piece: children whose partial sum is here
    // Pieces that are added, that have left for the parent, and that are the sum over all ranks.
    int64_t reduced = 0, left = 0, complete = 0;
  };
  // A lane that is open: its pieces move in order, `ahead` of them before the counter has passed them.
  struct Open {
    const Lane& lane;
    int64_t Chunk::*counter;
    int64_t ahead;
    std::unique_ptr<PieceStream> stream = {};
    size_t passed = 0;
  };

  static size_t at(int64_t index) { return static_cast<size_t>(index); }

  int64_t bytes_of(const Lanes& lanes, int peer) const {
    const auto found = lanes.find(peer);
    if (found == lanes.end()) return 0;
    int64_t elements = 0;
    for (const LanePiece& entry : found->second)
      elements += chunks_[at(entry.chunk)].pieces.range(entry.piece).size();
    return elements * size_of(data_.dtype());
  }

  Tensor piece_of(const Tensor& tensor, const LanePiece& entry) const {
    const Range range = chunks_[at(entry.chunk)].pieces.range(entry.piece);
    return tensor.narrow(range.begin, range.size());
  }
  // Where the `index`-th piece of the child's lane is held.
  Tensor held(int child, int64_t index) const {
    const LanePiece& entry = lanes_.from_children.at(child)[at(index)];
    return staging_.at(child).narrow(index % lanes_.sizes.under_way * lanes_.longest_piece,
                                     chunks_[at(entry.chunk)].pieces.range(entry.piece).size());
  }

  void open(Kind kind, const Lanes& lanes, int peer, Phase phase, int64_t Chunk::*counter,
            int64_t ahead = 0) {
    const auto found = lanes.find(peer);
    if (found == lanes.end()) return;
    const Lane& lane = found->second;
    const bool partial_sum = kind == Kind::Receive && phase == Phase::Data;
    auto& opened = open_.emplace_back(std::make_unique<Open>(Open{lane, counter, ahead}));
    opened->stream = std::make_unique<PieceStream>(
        operation_, kind, peer, phase, static_cast<int64_t>(lane.size()),
        [this, &lane, partial_sum, peer](int64_t index) {
          return partial_sum ? held(peer, index)
                             : piece_of(chunks_[at(lane[at(index)].chunk)].part, lane[at(index)]);
        },
        [this, &lane, kind, phase](int64_t index) { moved(kind, phase, lane[at(index)]); });
  }

  void moved(Kind kind, Phase phase, const LanePiece& entry) {
    Chunk& chunk = chunks_[at(entry.chunk)];
    if (phase == Phase::Data && kind == Kind::Send) chunk.left = entry.piece + 1;
    if (phase == Phase::Gather && kind == Kind::Receive) chunk.complete = entry.piece + 1;
    if (phase == Phase::Data && kind == Kind::Receive &&
        ++chunk.arrived[at(entry.piece)] == chunk.lane_starts.size())
      add(entry);
    advance();
  }

  // The pieces of one child arrive in order, so a chunk's pieces are complete in order as well.
  void add(const LanePiece& entry) {
    Chunk& chunk = chunks_[at(entry.chunk)];
    Tensor own = piece_of(chunk.part, entry);
    const Tensor sum = piece_of(chunk.sum, entry);
    for (const std::vector<int>& terms : plan_.chunks[at(entry.chunk)].additions) {
      std::vector<Tensor> parts;
      for (const int term : terms)
        parts.push_back(term == plan_.rank ? own : held(term, chunk.lane_starts.at(term) + entry.piece));
      reduce_terms(operation_.backend(), parts, sum, operation_.call().op);
      own = sum;
    }
    chunk.reduced = entry.piece + 1;
    if (plan_.chunks[at(entry.chunk)].parent < 0) chunk.complete = chunk.reduced;
  }

  void advance() {
    for (const auto& open : open_) {
      const auto passed = [&](const LanePiece& entry) {
        return chunks_[at(entry.chunk)].*(open->counter) > entry.piece;
      };
      while (open->passed < open->lane.size() && passed(open->lane[open->passed])) ++open->passed;
      open->stream->allow(static_cast<int64_t>(open->passed) + open->ahead);
    }
  }

  Operation& operation_;
  const ReductionPlan& plan_;
  const Tensor data_;
  const bool returns_;
  const ReductionLanes lanes_;
  std::vector<Chunk> chunks_;
  std::map<int, Tensor> staging_;  // by child
  std::vector<std::unique_ptr<Open>> open_;
};

}  // namespace

std::unique_ptr<Algorithm> make_reduction(Operation& operation) {
  return std::make_unique<Reduction>(operation);
}

}  // namespace tessera::messages
