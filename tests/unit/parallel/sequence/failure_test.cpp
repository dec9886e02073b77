// SPDX-License-Identifier: Apache-2.0
// A rank that fails in the middle of a call has waited for every transfer that it started.
#include <gtest/gtest.h>

#include <algorithm>

#include "framework/parallel/sequence/sequence_attention.h"
#include "framework/parallel/sequence/transfer.h"
#include "tests/support/logged_communicator.h"
#include "tests/support/sequence_case.h"
#include "tests/support/thread_ranks.h"

namespace tessera::test {
namespace {

// The last rank has no step number, which the first attention of forward or backward needs for its dropout.
void fail_in(bool backward, SequenceMode mode) {
  const SequenceCase c{.length = 40, .dropout = 0.5};
  std::string cause;
  try {
    run_ranks(3, [&](Communicator& world, Backend& backend, int rank) {
      std::string log;
      LoggedCommunicator group(world, log);
      const SequenceCut cut = make_sequence_cut(c.length, 3, rank);
      Layer layer(c, cut, backend, local_inputs(c, cut, make_inputs(c)));
      const auto core = make_sequence_attention(mode, group, settings_of(c));
      const bool fails = rank == 2;
      try {
        const AttentionResult result = layer.forward(*core, backward || !fails);
        layer.backward(*core, result, !fails);
        ADD_FAILURE() << "rank " << rank << " went on";
      } catch (const Error&) {
        EXPECT_NE(log, "") << rank;
        EXPECT_EQ(std::count(log.begin(), log.end(), 's'), std::count(log.begin(), log.end(), 'w')) << rank;
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
