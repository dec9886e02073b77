// SPDX-License-Identifier: Apache-2.0
// The part of a communicator that is the same for every transport.
#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <tuple>

#include "framework/base/check.h"
#include "framework/comm/reduce_terms.h"
#include "framework/comm/sent_bytes.h"
#include "framework/comm/timed_work.h"
#include "framework/comm/transport.h"

namespace tessera {

void copy_unless_same(Backend& backend, const Tensor& from, const Tensor& to) {
  const bool same = from.storage() == to.storage() && from.byte_offset() == to.byte_offset();
  if (!same && from.elements() > 0) backend.copy(from, to);
}

namespace {

std::string_view name_of(Reduce op) {
  return op == Reduce::Sum ? "sum" : "max";
}

template <class T>
std::string bytes_of(std::span<const T> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}

template <class T>
void read_bytes(std::string_view bytes, std::span<T> values) {
  CHECK(bytes.size() == values.size_bytes(), "a rank sent {} bytes where {} were expected", bytes.size(),
        values.size_bytes());
  std::copy(bytes.begin(), bytes.end(), reinterpret_cast<char*>(values.data()));
}

class GroupCommunicator final : public Communicator {
 public:
  explicit GroupCommunicator(std::unique_ptr<Transport> transport) : transport_(std::move(transport)) {}

  int rank() const override { return transport_->rank(); }
  int size() const override { return transport_->size(); }
  std::string_view name() const override { return transport_->name(); }
  std::vector<int> nodes() const override { return transport_->nodes(); }

  void use_all_reduce(AllReduceAlgorithm algorithm) override { algorithm_ = algorithm; }
  Work all_reduce(const Tensor& data, Reduce op, Stream& after) override;
  Work all_gather(const Tensor& shard, const Tensor& whole, Stream& after) override;
  Work reduce_scatter(const Tensor& whole, const Tensor& shard, Reduce op, Stream& after) override;
  Work all_to_all(const Tensor& send, std::span<const int64_t> send_rows, const Tensor& receive,
                  std::span<const int64_t> receive_rows, Stream& after) override;
  Work broadcast(const Tensor& data, int root, Stream& after) override;
  Work exchange(std::span<const PeerOp> operations, Stream& after) override;
  void barrier() override;
  std::unique_ptr<Communicator> split(int color, int key, std::string_view name) override;
  std::unique_ptr<Communicator> subgroup(std::span<const int> members, std::string_view name) override;

  void all_reduce_host(std::span<int64_t> values, Reduce op) override { reduce_host(values, op, "int64"); }
  void all_reduce_host(std::span<double> values, Reduce op) override { reduce_host(values, op, "fp64"); }
  void broadcast_host(std::string& bytes, int root) override;
  std::vector<std::string> all_gather_host(std::string_view bytes) override;
  void abort(std::string_view cause) noexcept override { transport_->abort(cause); }

 private:
  Work start(Call call, Stream& after);
  std::unique_ptr<Communicator> group_of(const std::vector<int>& members, int64_t number,
                                         std::string_view group_name);
  std::vector<std::string> gather_host(std::string_view bytes, std::string text);
  template <class T>
  void reduce_host(std::span<T> values, Reduce op, std::string_view type);
  void check_packed(const Tensor& tensor, std::string_view call) const;
  void check_shard(const Tensor& shard, const Tensor& whole, std::string_view call) const;
  void check_root(int root, std::string_view call) const;
  std::vector<int64_t> checked_counts(const Tensor& tensor, std::span<const int64_t> rows,
                                      std::string_view side) const;

  std::shared_ptr<const ReductionPlan> plan_for(AllReduceAlgorithm algorithm, int64_t bytes);
  std::unique_ptr<Transport> transport_;
  AllReduceAlgorithm algorithm_ = AllReduceAlgorithm::Auto;
  std::map<AllReduceAlgorithm, std::shared_ptr<const ReductionPlan>> plans_;
};

void GroupCommunicator::check_packed(const Tensor& tensor, std::string_view call) const {
  CHECK(tensor.defined(), "{} on '{}' was given an undefined tensor", call, name());
  CHECK(tensor.packed(), "{} on '{}' needs packed rows, {} has a row stride of {}: clone it first", call,
        name(), tensor.describe(), tensor.row_stride());
  CHECK(tensor.device() == transport_->backend().device(), "{} on '{}' was given a tensor of another device",
        call, name());
}

void GroupCommunicator::check_shard(const Tensor& shard, const Tensor& whole, std::string_view call) const {
  check_packed(shard, call);
  check_packed(whole, call);
  CHECK(whole.dtype() == shard.dtype() && whole.shape().rows() == size() * shard.shape().rows() &&
            whole.shape().row_elements() == shard.shape().row_elements(),
        "{} on '{}': the whole {} is not {} times the shard {}", call, name(), whole.describe(), size(),
        shard.describe());
}

void GroupCommunicator::check_root(int root, std::string_view call) const {
  CHECK(root >= 0 && root < size(), "{} on '{}': root {} is not one of its {} ranks", call, name(), root,
        size());
}

Work GroupCommunicator::start(Call call, Stream& after) {
  if (size() == 1) {
    after.synchronize();
    copy_unless_same(transport_->backend(), call.send, call.receive);
    return {};
  }
  call.after = &after;
  if (timeline() == nullptr) return transport_->start(std::move(call), traffic());
  const bool traced = timeline()->recording();
  std::string detail = traced ? fmt::format("{}: {}", name(), call.text) : std::string();
  const double begin = traced ? Timeline::now() : 0;
  return timed(transport_->start(std::move(call), traffic()), *timeline(), std::move(detail), begin);
}

// Plans are made when they are first needed, and kept. A group of one needs none.
std::shared_ptr<const ReductionPlan> GroupCommunicator::plan_for(AllReduceAlgorithm algorithm,
                                                                 int64_t bytes) {
  if (size() == 1) return {};
  const std::vector<int> nodes = transport_->nodes();
  const AllReduceAlgorithm chosen = chosen_algorithm(algorithm, bytes, nodes);
  std::shared_ptr<const ReductionPlan>& plan = plans_[chosen];
  if (!plan) plan = std::make_shared<const ReductionPlan>(plan_of(chosen, rank(), nodes));
  return plan;
}

Work GroupCommunicator::all_reduce(const Tensor& data, Reduce op, Stream& after) {
  check_packed(data, "all_reduce");
  return start({.kind = TrafficKind::AllReduce,
                .op = op,
                .send = data.flat(),
                .receive = data.flat(),
                .plan = plan_for(algorithm_, data.bytes()),
                .text = fmt::format("all_reduce({}, {})", name_of(op), data.describe())},
               after);
}

Work GroupCommunicator::all_gather(const Tensor& shard, const Tensor& whole, Stream& after) {
  check_shard(shard, whole, "all_gather");
  return start({.kind = TrafficKind::AllGather,
                .send = shard.flat(),
                .receive = whole.flat(),
                .text = fmt::format("all_gather({} from each rank)", shard.describe())},
               after);
}

Work GroupCommunicator::reduce_scatter(const Tensor& whole, const Tensor& shard, Reduce op, Stream& after) {
  check_shard(shard, whole, "reduce_scatter");
  return start({.kind = TrafficKind::ReduceScatter,
                .op = op,
                .send = whole.flat(),
                .receive = shard.flat(),
                .plan = plan_for(AllReduceAlgorithm::Direct, whole.bytes()),
                .text = fmt::format("reduce_scatter({}, {} to each rank)", name_of(op), shard.describe())},
               after);
}

std::vector<int64_t> GroupCommunicator::checked_counts(const Tensor& tensor, std::span<const int64_t> rows,
                                                       std::string_view side) const {
  check_packed(tensor, "all_to_all");
  CHECK(rows.size() == static_cast<size_t>(size()), "all_to_all on '{}': {} {} counts for {} ranks", name(),
        rows.size(), side, size());
  std::vector<int64_t> counts;
  int64_t total = 0;
  for (const int64_t count : rows) {
    CHECK(count >= 0, "all_to_all on '{}': a {} count of {}", name(), side, count);
    total += count;
    counts.push_back(count * tensor.shape().row_elements());
  }
  CHECK(total == tensor.shape().rows(), "all_to_all on '{}': the {} counts add up to {}, the tensor is {}",
        name(), side, total, tensor.describe());
  return counts;
}

Work GroupCommunicator::all_to_all(const Tensor& send, std::span<const int64_t> send_rows,
                                   const Tensor& receive, std::span<const int64_t> receive_rows,
                                   Stream& after) {
  std::vector<int64_t> send_counts = checked_counts(send, send_rows, "send");
  std::vector<int64_t> receive_counts = checked_counts(receive, receive_rows, "receive");
  CHECK(send.dtype() == receive.dtype() && send.shape().row_elements() == receive.shape().row_elements(),
        "all_to_all on '{}': rows of {} cannot arrive in {}", name(), send.describe(), receive.describe());
  return start({.kind = TrafficKind::AllToAll,
                .send = send.flat(),
                .receive = receive.flat(),
                .send_counts = std::move(send_counts),
                .receive_counts = std::move(receive_counts),
                .text = fmt::format("all_to_all(rows of {} {})", send.shape().row_elements(),
                                    tessera::name_of(send.dtype()))},
               after);
}

Work GroupCommunicator::broadcast(const Tensor& data, int root, Stream& after) {
  check_packed(data, "broadcast");
  check_root(root, "broadcast");
  return start({.kind = TrafficKind::Broadcast,
                .root = root,
                .send = data.flat(),
                .receive = data.flat(),
                .text = fmt::format("broadcast({} from rank {})", data.describe(), root)},
               after);
}

Work GroupCommunicator::exchange(std::span<const PeerOp> operations, Stream& after) {
  std::string text;
  std::vector<PeerOp> flat;
  for (const PeerOp& operation : operations) {
    const bool sends = operation.kind == PeerOp::Kind::Send;
    check_packed(operation.tensor, "exchange");
    CHECK(operation.peer >= 0 && operation.peer < size() && operation.peer != rank(),
          "exchange on '{}': rank {} cannot {} rank {} of {}", name(), rank(),
          sends ? "send to" : "receive from", operation.peer, size());
    text += fmt::format("{}{} {} {}", text.empty() ? "" : ", ", operation.tensor.describe(),
                        sends ? "to rank" : "from rank", operation.peer);
    flat.push_back({operation.kind, operation.peer, operation.tensor.flat()});
  }
  if (flat.empty()) return {};
  return start({.kind = TrafficKind::Exchange,
                .operations = std::move(flat),
                .text = fmt::format("exchange({})", text)},
               after);
}

std::vector<std::string> GroupCommunicator::gather_host(std::string_view bytes, std::string text) {
  if (size() == 1) return {std::string(bytes)};
  const Timeline::Scope scope(timeline(), Activity::Idle);
  traffic().add(TrafficKind::Host, host_sent_bytes(static_cast<int64_t>(bytes.size()), size()));
  return transport_->all_gather_host(bytes, std::move(text));
}

template <class T>
void GroupCommunicator::reduce_host(std::span<T> values, Reduce op, std::string_view type) {
  const std::vector<std::string> parts =
      gather_host(bytes_of<T>(values),
                  fmt::format("all_reduce_host({}, {} {} values)", name_of(op), values.size(), type));
  std::vector<T> term(values.size());
  for (size_t r = 0; r < parts.size(); ++r) {
    read_bytes<T>(parts[r], r == 0 ? values : std::span<T>(term));
    if (r > 0) reduce_into<T>(values, term, op);
  }
}

void GroupCommunicator::broadcast_host(std::string& bytes, int root) {
  check_root(root, "broadcast_host");
  std::vector<std::string> parts = gather_host(rank() == root ? std::string_view(bytes) : std::string_view(),
                                               fmt::format("broadcast_host(from rank {})", root));
  bytes = std::move(parts[static_cast<size_t>(root)]);
}

std::vector<std::string> GroupCommunicator::all_gather_host(std::string_view bytes) {
  return gather_host(bytes, "all_gather_host");
}

void GroupCommunicator::barrier() {
  gather_host({}, "barrier");
}

std::unique_ptr<Communicator> GroupCommunicator::group_of(const std::vector<int>& members, int64_t number,
                                                          std::string_view group_name) {
  std::unique_ptr<Communicator> group =
      make_communicator(transport_->make_group(members, number, group_name));
  group->set_timeline(timeline());
  group->use_all_reduce(algorithm_);
  return group;
}

std::unique_ptr<Communicator> GroupCommunicator::split(int color, int key, std::string_view group_name) {
  CHECK(transport_->knows_all_ranks(),
        "'{}' has one real rank and cannot ask the others for their colors: "
        "use subgroup",
        name());
  const int64_t mine[] = {color, key, transport_->next_group_number()};
  const std::vector<std::string> parts = gather_host(bytes_of<int64_t>(mine), "split");
  std::vector<std::pair<int64_t, int>> keyed;
  int64_t number = 0;
  for (int r = 0; r < size(); ++r) {
    std::array<int64_t, 3> theirs{};
    read_bytes<int64_t>(parts[static_cast<size_t>(r)], theirs);
    if (theirs[0] == color) keyed.emplace_back(theirs[1], r);
    number = std::max(number, theirs[2]);
  }
  std::sort(keyed.begin(), keyed.end());
  std::vector<int> members;
  for (const auto& [unused, r] : keyed) members.push_back(r);
  return group_of(members, number, group_name);
}

std::unique_ptr<Communicator> GroupCommunicator::subgroup(std::span<const int> members,
                                                          std::string_view group_name) {
  const std::vector<int> own(members.begin(), members.end());
  std::vector<int> sorted = own;
  std::sort(sorted.begin(), sorted.end());
  CHECK(std::binary_search(sorted.begin(), sorted.end(), rank()) && sorted.front() >= 0 &&
            sorted.back() < size() && std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end(),
        "subgroup '{}' of '{}': the list has to name rank {} and only ranks below {}, each once", group_name,
        name(), rank(), size());
  std::vector<int64_t> mine{transport_->next_group_number()};
  mine.insert(mine.end(), own.begin(), own.end());
  const std::vector<std::string> parts = gather_host(bytes_of<int64_t>(mine), "subgroup");
  int64_t number = 0;
  for (const std::string& part : parts) {
    std::vector<int64_t> theirs(part.size() / sizeof(int64_t));
    read_bytes<int64_t>(part, theirs);
    number = std::max(number, theirs.at(0));
  }
  for (const int member : own) {
    const std::string& part = parts[static_cast<size_t>(member)];
    CHECK(std::string_view(part).substr(sizeof(int64_t)) ==
              std::string_view(parts[static_cast<size_t>(rank())]).substr(sizeof(int64_t)),
          "subgroup '{}' of '{}': ranks {} and {} name different groups", group_name, name(), rank(), member);
  }
  return group_of(own, number, group_name);
}

}  // namespace

std::unique_ptr<Communicator> make_communicator(std::unique_ptr<Transport> transport) {
  return std::make_unique<GroupCommunicator>(std::move(transport));
}

}  // namespace tessera
