// SPDX-License-Identifier: Apache-2.0
#include "framework/comm/mpi/message_transport.h"

#include <algorithm>
#include <exception>
#include <numeric>

#include "framework/base/check.h"
#include "framework/comm/mpi/algorithms.h"
#include "framework/comm/mpi/engine.h"
#include "framework/comm/mpi/operation.h"
#include "framework/comm/sent_bytes.h"

namespace tessera::messages {

namespace {

class OperationWork final : public Work::State {
 public:
  OperationWork(std::shared_ptr<Engine> engine, std::shared_ptr<Operation> operation)
      : engine_(std::move(engine)), operation_(std::move(operation)) {}
  void wait() override { engine_->wait(*operation_); }
  bool done() override { return engine_->done(*operation_); }
  double finished() override { return operation_->finished_at; }

 private:
  std::shared_ptr<Engine> engine_;
  std::shared_ptr<Operation> operation_;
};

class MessageTransport final : public Transport {
 public:
  // `next_number` is shared by the communicators of this process.
  MessageTransport(std::shared_ptr<Engine> engine, std::shared_ptr<int64_t> next_number,
                   std::shared_ptr<Group> group)
      : engine_(std::move(engine)), next_number_(std::move(next_number)), group_(std::move(group)) {}
  ~MessageTransport() override { engine_->leave(*group_, std::uncaught_exceptions() > exceptions_at_birth_); }

  int rank() const override { return group_->rank; }
  int size() const override { return group_->size(); }
  std::string_view name() const override { return group_->name; }
  Backend& backend() override { return *group_->backend; }
  std::vector<int> nodes() const override { return group_->nodes; }

  Work start(Call call, Traffic& traffic) override {
    const int64_t bytes = sent_bytes(call, size(), rank());
    const TrafficKind kind = call.kind;
    auto operation = std::make_shared<Operation>(group_, std::move(call), bytes);
    operation->set_algorithm(make_algorithm);
    engine_->post(operation);
    traffic.add(kind, bytes);
    return Work(std::make_shared<OperationWork>(engine_, std::move(operation)));
  }

  std::vector<std::string> all_gather_host(std::string_view bytes, std::string text) override {
    auto parts = std::make_shared<std::vector<std::string>>();
    auto operation =
        std::make_shared<Operation>(group_, Call{.kind = TrafficKind::Host, .text = std::move(text)},
                                    host_sent_bytes(static_cast<int64_t>(bytes.size()), size()));
    operation->set_algorithm(
        [own = std::string(bytes), parts](Operation& self) { return make_host_gather(self, own, parts); });
    engine_->post(operation);
    engine_->wait(*operation);
    return std::move(*parts);
  }

  int64_t next_group_number() override { return *next_number_; }
  std::unique_ptr<Transport> make_group(const std::vector<int>& members, int64_t number,
                                        std::string_view name) override {
    // Operation::tag uses 64 tags a group.
    CHECK(number < engine_->largest_tag() / 64,
          "group '{}' would be number {}; the tags of this MPI reach for {} groups", name, number,
          engine_->largest_tag() / 64);
    *next_number_ = std::max(*next_number_, number + 1);
    auto group = std::make_shared<Group>();
    group->name = name;
    group->number = number;
    group->backend = group_->backend;
    group->engine = engine_.get();
    for (const int member : members) {
      if (member == rank()) group->rank = static_cast<int>(group->world_ranks.size());
      group->world_ranks.push_back(group_->world_ranks[static_cast<size_t>(member)]);
      group->nodes.push_back(group_->nodes[static_cast<size_t>(member)]);
    }
    group->sizes = piece_sizes(group->nodes);
    return std::make_unique<MessageTransport>(engine_, next_number_, std::move(group));
  }

  void abort(std::string_view cause) noexcept override { engine_->abort(cause); }

 private:
  const int exceptions_at_birth_ = std::uncaught_exceptions();
  std::shared_ptr<Engine> engine_;
  std::shared_ptr<int64_t> next_number_;
  std::shared_ptr<Group> group_;
};

}  // namespace

std::unique_ptr<Communicator> make_message_world(const MakeMessageLayer& make_layer, Backend& backend,
                                                 Patience patience) {
  auto engine = std::make_shared<Engine>(make_layer, std::move(patience));
  auto group = std::make_shared<Group>();
  group->name = "world";
  group->rank = engine->rank();
  group->backend = &backend;
  group->engine = engine.get();
  group->world_ranks.resize(static_cast<size_t>(engine->size()));
  std::iota(group->world_ranks.begin(), group->world_ranks.end(), 0);
  group->nodes = engine->nodes();
  group->sizes = piece_sizes(group->nodes);
  return make_communicator(
      std::make_unique<MessageTransport>(std::move(engine), std::make_shared<int64_t>(1), std::move(group)));
}

}  // namespace tessera::messages
