// SPDX-License-Identifier: Apache-2.0
// Passes calls on to a group and writes down when their works start and when they are waited for.
#pragma once
#include <string>

#include "framework/comm/communicator.h"

namespace tessera::test {

class LoggedWork final : public Work::State {
 public:
  LoggedWork(Work work, std::string& log) : work_(std::move(work)), log_(log) { log_ += 's'; }
  void wait() override {
    log_ += 'w';
    work_.wait();
  }
  bool done() override { return work_.done(); }

 private:
  Work work_;
  std::string& log_;
};

// 's' is added to the log for each work that starts and 'w' for each wait; both references must outlive it.
class LoggedCommunicator final : public Communicator {
 public:
  LoggedCommunicator(Communicator& group, std::string& log) : group_(group), log_(log) {}
  int rank() const override { return group_.rank(); }
  int size() const override { return group_.size(); }
  std::string_view name() const override { return group_.name(); }
  std::vector<int> nodes() const override { return group_.nodes(); }
  void use_all_reduce(AllReduceAlgorithm algorithm) override { group_.use_all_reduce(algorithm); }
  Work all_reduce(const Tensor& data, Reduce op, Stream& after) override {
    return logged(group_.all_reduce(data, op, after));
  }
  Work all_gather(const Tensor& shard, const Tensor& whole, Stream& after) override {
    return logged(group_.all_gather(shard, whole, after));
  }
  Work reduce_scatter(const Tensor& whole, const Tensor& shard, Reduce op, Stream& after) override {
    return logged(group_.reduce_scatter(whole, shard, op, after));
  }
  Work all_to_all(const Tensor& send, std::span<const int64_t> send_rows, const Tensor& receive,
                  std::span<const int64_t> receive_rows, Stream& after) override {
    return logged(group_.all_to_all(send, send_rows, receive, receive_rows, after));
  }
  Work broadcast(const Tensor& data, int root, Stream& after) override {
    return logged(group_.broadcast(data, root, after));
  }
  Work exchange(std::span<const PeerOp> operations, Stream& after) override {
    return logged(group_.exchange(operations, after));
  }
  void barrier() override { group_.barrier(); }
  std::unique_ptr<Communicator> split(int color, int key, std::string_view name) override {
    return group_.split(color, key, name);
  }
  std::unique_ptr<Communicator> subgroup(std::span<const int> members, std::string_view name) override {
    return group_.subgroup(members, name);
  }
  void all_reduce_host(std::span<int64_t> values, Reduce op) override { group_.all_reduce_host(values, op); }
  void all_reduce_host(std::span<double> values, Reduce op) override { group_.all_reduce_host(values, op); }
  void broadcast_host(std::string& bytes, int root) override { group_.broadcast_host(bytes, root); }
  std::vector<std::string> all_gather_host(std::string_view bytes) override {
    return group_.all_gather_host(bytes);
  }
  void abort(std::string_view cause) noexcept override { group_.abort(cause); }

 private:
  Work logged(Work work) { return Work(std::make_shared<LoggedWork>(std::move(work), log_)); }
  Communicator& group_;
  std::string& log_;
};

}  // namespace tessera::test
