// SPDX-License-Identifier: Apache-2.0
// One collective or exchange of this rank while it is under way. In a collective every rank first sends a
// header to every other: a call that differs is found before its data moves, and a wait that ends by its time
// limit can name the ranks that have not come. The data's way is the algorithm's.
#pragma once
#include <array>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "framework/comm/mpi/engine.h"
#include "framework/comm/pieces.h"
#include "framework/comm/transport.h"

namespace tessera::messages {

// The first message from one rank to another in a call.
struct Header {
  int64_t bytes = 0;           // of data that follows with the same tag
  std::array<char, 248> text;  // of the call, cut when longer
  std::string_view text_view() const;
};
Header header_of(std::string_view text, int64_t bytes);

enum class Phase : int { Data = 0, Gather = 1, Exchange = 2 };

// One half of an exchange's message. Those of one direction between two ranks go one after another.
class ChannelMessage {
 public:
  virtual ~ChannelMessage() = default;
  virtual void begin() = 0;
};

// What the progress thread knows of a communicator.
struct Group {
  std::string name;
  std::vector<int> world_ranks, nodes;  // by rank
  PieceSizes sizes = kPiecesOnANode;
  int rank = 0;
  int64_t number = 0;  // separates its tags from those of other groups
  Backend* backend = nullptr;
  Engine* engine = nullptr;
  int64_t next_sequence = 0;  // the calling thread's

  // The progress thread's: collectives run one after another, exchanges beside them.
  std::deque<std::shared_ptr<Operation>> collectives;  // the front one is active
  std::map<std::pair<int, PeerOp::Kind>, std::deque<ChannelMessage*>> channels;
  // With the engine's mutex: operations posted and not done.
  int64_t unfinished = 0;

  int size() const { return static_cast<int>(world_ranks.size()); }
  std::string rank_text(int group_rank) const;
};

// How the data of a call moves. Lives until the operation is done.
class Algorithm {
 public:
  virtual ~Algorithm() = default;
  virtual void begin() {}
  // In collectives: the bytes of the Data phase to and from a peer (-1: any number), and the peer's header
  // has come.
  virtual int64_t bytes_to(int) const { return 0; }
  virtual int64_t bytes_from(int) const { return 0; }
  virtual void meet(int /*peer*/, const Header&) {}
};

class Operation : public std::enable_shared_from_this<Operation> {
 public:
  // `expected_bytes`: what this rank must have sent in the end.
  Operation(std::shared_ptr<Group> group, Call call, int64_t expected_bytes);

  using MakeAlgorithm = std::function<std::unique_ptr<Algorithm>(Operation&)>;
  void set_algorithm(MakeAlgorithm make) { make_algorithm_ = std::move(make); }

  Group& group() const { return *group_; }
  Engine& engine() const { return *group_->engine; }
  Backend& backend() const { return *group_->backend; }
  const Call& call() const { return call_; }
  bool collective() const { return call_.kind != TrafficKind::Exchange; }
  const std::string& text() const { return call_.text; }

  // The progress thread only.
  void begin();
  void open_part() { ++open_parts_; }
  void close_part();
  void count_sent(int64_t bytes) { sent_bytes_ += bytes; }
  int tag(Phase phase) const;
  // Raw bytes to and from a rank of the group. Each is a part until its callback has returned.
  void send(std::span<const std::byte> bytes, int peer, Phase phase, std::function<void()> sent);
  void receive(std::span<std::byte> bytes, int peer, Phase phase, std::function<void(int64_t)> received);
  void release();  // tensors and buffers

  // With the engine's mutex.
  std::string missing() const;
  std::vector<bool> absent;  // by rank of the group
  bool done = false;
  double finished_at = 0;

 private:
  void check_header(int peer, int64_t received) const;

  std::shared_ptr<Group> group_;
  Call call_;
  const int64_t sequence_;
  const int64_t expected_bytes_;
  MakeAlgorithm make_algorithm_;
  std::unique_ptr<Algorithm> algorithm_;
  std::vector<Header> sent_headers_, headers_;  // by rank of the group
  int64_t open_parts_ = 0, sent_bytes_ = 0;
};

}  // namespace tessera::messages
