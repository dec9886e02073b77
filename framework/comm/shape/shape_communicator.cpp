// SPDX-License-Identifier: Apache-2.0
#include "framework/comm/shape/shape_communicator.h"

#include <algorithm>

#include "framework/base/check.h"
#include "framework/comm/reduction_lanes.h"
#include "framework/comm/sent_bytes.h"
#include "framework/ops/memory.h"

namespace tessera {

namespace {

class ShapeTransport final : public Transport {
 public:
  ShapeTransport(int size, int rank, std::string_view name, Backend& backend, ShapeRanks ranks)
      : size_(size), rank_(rank), name_(name), backend_(backend), ranks_(ranks) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string_view name() const override { return name_; }
  Backend& backend() override { return backend_; }
  std::vector<int> nodes() const override { return std::vector<int>(static_cast<size_t>(size_)); }

  Work start(Call call, Traffic& traffic) override {
    CHECK(failure_.empty(), "{}", failure_);
    traffic.add(call.kind, sent_bytes(call, size_, rank_));
    if (ranks_ == ShapeRanks::Processes) count_staging(call);
    return {};
  }
  std::vector<std::string> all_gather_host(std::string_view bytes, std::string) override {
    CHECK(failure_.empty(), "{}", failure_);
    return std::vector<std::string>(static_cast<size_t>(size_), std::string(bytes));
  }

  bool knows_all_ranks() const override { return false; }
  int64_t next_group_number() override { return 0; }
  std::unique_ptr<Transport> make_group(const std::vector<int>& members, int64_t,
                                        std::string_view name) override {
    const auto own = std::find(members.begin(), members.end(), rank_) - members.begin();
    return std::make_unique<ShapeTransport>(static_cast<int>(members.size()), static_cast<int>(own), name,
                                            backend_, ranks_);
  }

  void abort(std::string_view cause) noexcept override { failure_ = cause; }

 private:
  void count_staging(const Call& call) {
    if (!call.plan) return;
    const ReductionLanes lanes(*call.plan, call.send.elements(), call.send.dtype(), kPiecesOnANode);
    std::vector<Tensor> held;
    for (const auto& [child, lane] : lanes.from_children)
      held.push_back(empty(backend_, call.send.dtype(), {lanes.held_of(child)}));
  }

  int size_, rank_;
  std::string name_;
  Backend& backend_;
  ShapeRanks ranks_;
  std::string failure_;
};

}  // namespace

std::unique_ptr<Communicator> make_shape_world(int size, int rank, Backend& backend, ShapeRanks ranks) {
  CHECK(size >= 1 && rank >= 0 && rank < size, "rank {} of {} ranks", rank, size);
  return make_communicator(std::make_unique<ShapeTransport>(size, rank, "world", backend, ranks));
}

}  // namespace tessera
