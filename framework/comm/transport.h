// SPDX-License-Identifier: Apache-2.0
// What one transport (threads, MPI, ...) has to do for a communicator. Arguments arrive checked, groups of
// one never arrive, and everything that can be built from these few calls is built once, in
// group_communicator.cpp.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "framework/comm/communicator.h"
#include "framework/ops/backend.h"

namespace tessera {

// One rank's part in one collective.
struct Call {
  TrafficKind kind;
  Reduce op = Reduce::Sum;
  int root = 0;
  Tensor send = {}, receive = {};                              // flat; in place calls have them equal
  std::vector<int64_t> send_counts = {}, receive_counts = {};  // of an all-to-all: elements for each rank
  std::vector<PeerOp> operations = {};                         // of an exchange: flat tensors
  // How this rank takes part in an all-reduce or a reduce-scatter, whose chunks are then the ranks' shards.
  std::shared_ptr<const ReductionPlan> plan = {};
  Stream* after = nullptr;
  std::string text;  // "all_reduce(sum, fp32[1003])": equal on all ranks whose calls belong together
};

class Transport {
 public:
  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual std::string_view name() const = 0;
  virtual Backend& backend() = 0;
  virtual std::vector<int> nodes() const = 0;  // as Communicator::nodes

  // Adds what this rank sends to `traffic`, which outlives the work.
  virtual Work start(Call call, Traffic& traffic) = 0;
  // Every rank's bytes in rank order; blocking. `text` as in Call.
  virtual std::vector<std::string> all_gather_host(std::string_view bytes, std::string text) = 0;

  // False where the other ranks are imagined: then groups cannot be found by asking them.
  virtual bool knows_all_ranks() const { return true; }
  // A number above those of all groups that this rank is in. Ranks that make a group agree on the largest.
  virtual int64_t next_group_number() = 0;
  // A group of these ranks (of this group, in the new order), this one among them. Nothing is sent.
  virtual std::unique_ptr<Transport> make_group(const std::vector<int>& members, int64_t number,
                                                std::string_view name) = 0;

  virtual void abort(std::string_view cause) noexcept = 0;
};

// Nothing happens when both are the same place (a shard inside the whole) or empty.
void copy_unless_same(Backend& backend, const Tensor& from, const Tensor& to);

// Checks arguments, counts, serves groups of one, and agrees on host values and new groups.
std::unique_ptr<Communicator> make_communicator(std::unique_ptr<Transport> transport);

}  // namespace tessera
