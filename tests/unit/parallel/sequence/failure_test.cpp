// SPDX-License-Identifier: Apache-2.0
// A rank that fails in the middle of a call has waited for every transfer that it started.
#include <gtest/gtest.h>

#include "framework/parallel/sequence/sequence_attention.h"
#include "framework/parallel/sequence/transfer.h"
#include "tests/support/sequence_case.h"
#include "tests/support/thread_ranks.h"

namespace tessera::test {
namespace {

struct Counts {
  int started = 0, waited = 0;
};

class CountedWork final : public Work::State {
 public:
  CountedWork(Work work, Counts& counts) : work_(std::move(work)), counts_(counts) { ++counts_.started; }
  void wait() override {
    ++counts_.waited;
    work_.wait();
  }
  bool done() override { return work_.done(); }

 private:
  Work work_;
  Counts& counts_;
};

// Passes calls on to a group and counts their works.
class CountingCommunicator final : public Communicator {
 public:
  explicit CountingCommunicator(Communicator& group) : group_(group) {}
  int rank() const override { return group_.rank(); }
  int size() const override { return group_.size(); }
  std::string_view name() const override { return group_.name(); }
  Work all_reduce(const Tensor& data, Reduce op, Stream& after) override {
    return counted(group_.all_reduce(data, op, after));
  }
  Work all_gather(const Tensor& shard, const Tensor& whole, Stream& after) override {
    return counted(group_.all_gather(shard, whole, after));
  }
  Work reduce_scatter(const Tensor& whole, const Tensor& shard, Reduce op, Stream& after) override {
    return counted(group_.reduce_scatter(whole, shard, op, after));
  }
  Work all_to_all(const Tensor& send, std::span<const int64_t> send_rows, const Tensor& receive,
                  std::span<const int64_t> receive_rows, Stream& after) override {
    return counted(group_.all_to_all(send, send_rows, receive, receive_rows, after));
  }
  Work broadcast(const Tensor& data, int root, Stream& after) override {
    return counted(group_.broadcast(data, root, after));
  }
  Work exchange(std::span<const PeerOp> operations, Stream& after) override {
    return counted(group_.exchange(operations, after));
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

  Counts counts;

 private:
  Work counted(Work work) { return Work(std::make_shared<CountedWork>(std::move(work), counts)); }
  Communicator& group_;
};

constexpr SequenceMode kModes[] = {SequenceMode::Ring, SequenceMode::Ulysses, SequenceMode::Gather};

// The last rank has no step number, which the first attention of forward or backward needs for its dropout.
void fail_in(bool backward, SequenceMode mode) {
  const SequenceCase c{.length = 40, .dropout = 0.5};
  std::string cause;
  try {
    run_ranks(3, [&](Communicator& world, Backend& backend, int rank) {
      CountingCommunicator group(world);
      const SequenceCut cut = make_sequence_cut(c.length, 3, rank);
      Layer layer(c, cut, backend, local_inputs(c, cut, make_inputs(c)));
      const auto core = make_sequence_attention(mode, group, settings_of(c));
      const bool fails = rank == 2;
      try {
        const AttentionResult result = layer.forward(*core, backward || !fails);
        layer.backward(*core, result, !fails);
        ADD_FAILURE() << "rank " << rank << " went on";
      } catch (const Error&) {
        EXPECT_GT(group.counts.started, 0) << rank;
        EXPECT_EQ(group.counts.started, group.counts.waited) << rank;
        throw;
      }
    });
  } catch (const Error& error) {
    cause = error.what();
  }
  EXPECT_NE(cause.find("step"), std::string::npos) << cause;
}

TEST(SequenceFailure, leaves_no_transfer_behind) {
  for (const SequenceMode mode : kModes)
    for (const bool backward : {false, true}) {
      SCOPED_TRACE(fmt::format("mode {}, {}", static_cast<int>(mode), backward ? "backward" : "forward"));
      fail_in(backward, mode);
    }
}

TEST(SequenceFailure, is_reported_rather_than_that_of_a_transfer) {
  class FailingWork final : public Work::State {
    void wait() override { throw Error(ExitCode::Communication, "the transfer failed"); }
    bool done() override { return false; }
  };
  Stream stream;
  try {
    const Transfer transfer(Work(std::make_shared<FailingWork>()), stream);
    throw Error(ExitCode::Usage, "the compute failed");
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "the compute failed");
  }
  Transfer waited(Work(std::make_shared<FailingWork>()), stream);
  EXPECT_THROW(waited.wait(), Error);
}

}  // namespace
}  // namespace tessera::test
