// SPDX-License-Identifier: Apache-2.0
#include "framework/comm/in_process/in_process.h"

#include <algorithm>
#include <exception>
#include <numeric>

#include "framework/base/check.h"
#include "framework/comm/in_process/world.h"
#include "framework/comm/sent_bytes.h"

namespace tessera {

namespace in_process {
namespace {

class PendingWork final : public Work::State {
 public:
  PendingWork(std::shared_ptr<World> world, std::shared_ptr<Group> group, std::shared_ptr<Pending> pending,
              int rank)
      : world_(std::move(world)), group_(std::move(group)), pending_(std::move(pending)), rank_(rank) {}
  void wait() override { world_->wait(*pending_, rank_); }
  bool done() override { return world_->done(*pending_); }
  double finished() override { return pending_->finished_at; }

 private:
  std::shared_ptr<World> world_;
  std::shared_ptr<Group> group_;  // the pending call refers to it
  std::shared_ptr<Pending> pending_;
  int rank_;
};

class InProcessTransport final : public Transport {
 public:
  // `next_number` is shared by the communicators of one rank.
  InProcessTransport(std::shared_ptr<World> world, std::shared_ptr<int64_t> next_number,
                     const std::vector<int>& world_ranks, int64_t number, std::string_view name, int rank,
                     Backend& backend)
      : world_(std::move(world)),
        next_number_(std::move(next_number)),
        backend_(backend),
        rank_(rank),
        group_(world_->join(world_ranks, number, name, rank, backend)) {}
  ~InProcessTransport() override {
    world_->leave(*group_, rank_, std::uncaught_exceptions() > exceptions_at_birth_);
  }

  int rank() const override { return rank_; }
  int size() const override { return group_->size(); }
  std::string_view name() const override { return group_->name; }
  Backend& backend() override { return backend_; }
  std::vector<int> nodes() const override { return world_->nodes_of(*group_); }

  Work start(Call call, Traffic& traffic) override {
    const int64_t bytes = sent_bytes(call, size(), rank_);
    const TrafficKind kind = call.kind;
    std::shared_ptr<Pending> pending;
    if (kind == TrafficKind::Exchange)
      pending = world_->exchange(group_, rank_, call);
    else
      pending = world_->start(group_, rank_, std::move(call));
    traffic.add(kind, bytes);
    return Work(std::make_shared<PendingWork>(world_, group_, std::move(pending), rank_));
  }

  std::vector<std::string> all_gather_host(std::string_view bytes, std::string text) override {
    const std::shared_ptr<Collective> collective = world_->start(
        group_, rank_, {.kind = TrafficKind::Host, .text = std::move(text)}, std::string(bytes));
    world_->wait(*collective, rank_);
    return collective->host;
  }

  int64_t next_group_number() override { return *next_number_; }
  std::unique_ptr<Transport> make_group(const std::vector<int>& members, int64_t number,
                                        std::string_view name) override {
    *next_number_ = std::max(*next_number_, number + 1);
    std::vector<int> world_ranks;
    int own = 0;
    for (const int member : members) {
      if (member == rank_) own = static_cast<int>(world_ranks.size());
      world_ranks.push_back(group_->world_ranks[static_cast<size_t>(member)]);
    }
    return std::make_unique<InProcessTransport>(world_, next_number_, world_ranks, number, name, own,
                                                backend_);
  }

  void abort(std::string_view cause) noexcept override {
    world_->abort(group_->world_ranks[static_cast<size_t>(rank_)], cause);
  }

 private:
  const int exceptions_at_birth_ = std::uncaught_exceptions();
  std::shared_ptr<World> world_;
  std::shared_ptr<int64_t> next_number_;
  Backend& backend_;
  int rank_;
  std::shared_ptr<Group> group_;
};

}  // namespace
}  // namespace in_process

InProcessWorld::InProcessWorld(int size, Patience patience, std::vector<int> nodes)
    : world_(std::make_shared<in_process::World>(size, std::move(patience), std::move(nodes))) {}

InProcessWorld::~InProcessWorld() = default;

std::unique_ptr<Communicator> InProcessWorld::attach(int rank, Backend& backend) {
  CHECK(rank >= 0 && rank < world_->size(), "rank {} is not one of the world's {} ranks", rank,
        world_->size());
  std::vector<int> all(static_cast<size_t>(world_->size()));
  std::iota(all.begin(), all.end(), 0);
  return make_communicator(std::make_unique<in_process::InProcessTransport>(
      world_, std::make_shared<int64_t>(1), all, 0, "world", rank, backend));
}

void InProcessWorld::abort(int rank, std::string_view cause) noexcept {
  world_->abort(rank, cause);
}

int InProcessWorld::aborted_by() const {
  return world_->aborted_by();
}

}  // namespace tessera
