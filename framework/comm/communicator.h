// SPDX-License-Identifier: Apache-2.0
// Collectives of one group of ranks, one vocabulary for threads, MPI and devices. Every call starts after
// the work already in `after` and returns a Work that must be waited for; it keeps its tensors alive.
// Order holds per communicator: all its ranks make the same calls in the same order. A group of one
// returns at once. Sums add in an order that the algorithm fixes, in fp32 (F64 for F64), and round once a
// hop, so results do not depend on timing, and every rank receives the same bits.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "framework/base/timeline.h"
#include "framework/base/turns.h"
#include "framework/comm/reduction_plan.h"
#include "framework/comm/traffic.h"
#include "framework/tensor/tensor.h"

namespace tessera {

class Work {
 public:
  class State {
   public:
    virtual ~State() = default;
    virtual void wait() = 0;  // the host blocks; throws what the operation threw
    virtual bool done() = 0;
    // When it ended, on the clock of Timeline::now(); asked after wait().
    virtual double finished() { return Timeline::now(); }
  };
  Work() = default;  // nothing outstanding
  explicit Work(std::shared_ptr<State> state) : state_(std::move(state)) {}
  void wait() {
    if (state_) state_->wait();
    state_.reset();
  }
  void wait(Stream&) { wait(); }  // later work in the stream sees the result; host streams: the host waits
  // The same, but the other piece of take_turns(), if there is one, goes on first. For calls that all ranks
  // of the group make alike: turns then change at the same places on each.
  void wait_in_turn(Stream& stream) {
    give_turn();
    wait(stream);
  }
  bool done() { return !state_ || state_->done(); }
  // Hands over what is outstanding, to be waited for by another.
  std::shared_ptr<State> release() { return std::exchange(state_, nullptr); }

 private:
  std::shared_ptr<State> state_;
};

enum class Reduce : uint8_t { Sum, Max };

struct PeerOp {
  enum class Kind : uint8_t { Send, Receive };
  Kind kind;
  int peer;
  Tensor tensor;
};

class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual std::string_view name() const = 0;   // "world", "dp": for counters and error messages
  virtual std::vector<int> nodes() const = 0;  // by rank, a number of the node that it runs on

  // How all_reduce of this communicator goes, and of those made from it afterwards. Auto unless set. Every
  // rank sets the same, before its next call.
  virtual void use_all_reduce(AllReduceAlgorithm algorithm) = 0;

  // In place.
  [[nodiscard]] virtual Work all_reduce(const Tensor& data, Reduce op, Stream& after) = 0;
  // whole has size() times the rows of shard, in rank order. Here and in reduce_scatter, shard may be this
  // rank's rows of whole.
  [[nodiscard]] virtual Work all_gather(const Tensor& shard, const Tensor& whole, Stream& after) = 0;
  [[nodiscard]] virtual Work reduce_scatter(const Tensor& whole, const Tensor& shard, Reduce op,
                                            Stream& after) = 0;
  // Rows of send go to ranks in order, send_rows[r] of them to rank r.
  [[nodiscard]] virtual Work all_to_all(const Tensor& send, std::span<const int64_t> send_rows,
                                        const Tensor& receive, std::span<const int64_t> receive_rows,
                                        Stream& after) = 0;
  [[nodiscard]] virtual Work broadcast(const Tensor& data, int root, Stream& after) = 0;
  // One group of sends and receives: no order among them can deadlock. Only the ranks named take part: the
  // k-th send from a to b meets the k-th receive at b from a, whatever collectives are made in between.
  [[nodiscard]] virtual Work exchange(std::span<const PeerOp> operations, Stream& after) = 0;
  virtual void barrier() = 0;
  // Collective: ranks with the same color form a group, ordered by key, then by rank.
  virtual std::unique_ptr<Communicator> split(int color, int key, std::string_view name) = 0;
  // The same with the groups known: each rank names the ranks of its group, in the group's order.
  virtual std::unique_ptr<Communicator> subgroup(std::span<const int> members, std::string_view name) = 0;

  // Small host values, for agreement; blocking. Every rank gets the same answer.
  virtual void all_reduce_host(std::span<int64_t> values, Reduce op) = 0;
  virtual void all_reduce_host(std::span<double> values, Reduce op) = 0;  // sums in rank order
  virtual void broadcast_host(std::string& bytes, int root) = 0;
  virtual std::vector<std::string> all_gather_host(std::string_view bytes) = 0;  // in rank order

  // This rank failed: every other rank's pending and later calls throw, with this cause. Never blocks.
  virtual void abort(std::string_view cause) noexcept = 0;

  Traffic& traffic() { return traffic_; }
  // Where this rank's waits count, or null. Groups made from this one inherit it; it outlives their calls.
  Timeline* timeline() const { return timeline_; }
  void set_timeline(Timeline* timeline) { timeline_ = timeline; }

 private:
  Traffic traffic_;
  Timeline* timeline_ = nullptr;
};

}  // namespace tessera
