// SPDX-License-Identifier: Apache-2.0
// Activations that leave memory and come back are the same bits: gradients of step 1, losses and weights
// after two steps are those of the same layout without, in every kind of schedule, beside other axes and by
// hand.
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>

#include "tests/support/parity_data.h"
#include "tests/support/scratch_folder.h"

namespace tessera::test {
namespace {

namespace fs = std::filesystem;

// Of all ranks, in two steps.
struct OffloadRun {
  RunRecord record;
  int64_t bytes = 0;
};

OffloadRun run_two_steps(const Keys& keys) {
  std::atomic<int64_t> bytes = 0;
  RunRecord record = run_fixture(fixture_config(keys),
                                 {.steps = 2,
                                  .finish = [&](Rank& rank) { bytes += rank.executor().offloaded_bytes(); },
                                  .edit = thin_out});
  return {std::move(record), bytes};
}

void expect_same_bits(const Keys& keys, const Keys& offload) {
  const ScratchFolder folder;
  const OffloadRun plain = run_two_steps(keys);
  const OffloadRun away =
      run_two_steps(keys + offload + Keys{"activation_checkpointing.offload_dir=" + folder.path().string()});
  const std::string what = fmt::format("{}", fmt::join(keys, " "));
  EXPECT_EQ(plain.bytes, 0) << what;
  EXPECT_GT(away.bytes, 0) << what;
  EXPECT_EQ(away.record.losses, plain.record.losses) << what;
  EXPECT_EQ(away.record.norms, plain.record.norms) << what;
  EXPECT_EQ(away.record.gradients, plain.record.gradients) << what;
  expect_same_weights(away.record, plain.record, what);
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

const Keys kOffload{"activation_checkpointing.offload=true"};

class OffloadUnder : public testing::TestWithParam<const char*> {};

TEST_P(OffloadUnder, ChangesNoBit) {
  const std::string schedule = GetParam();
  Keys keys = odd_model("gpt", 7) +
              Keys{"train.micro_batch_size=2", "parallel.pp=2", "parallel.schedule=" + schedule};
  if (schedule == "interleaved") keys.push_back("parallel.virtual_stages=2");
  // Blocks enough on the last stage that its inputs, too, leave before it runs again.
  if (schedule == "1f1b" || schedule == "zb_h1") keys.push_back("parallel.stage_layout=3,4");
  for (const char* mode : {"none", "stage", "selective"})
    expect_same_bits(keys + Keys{std::string("activation_checkpointing.mode=") + mode}, kOffload);
}

INSTANTIATE_TEST_SUITE_P(Schedules, OffloadUnder,
                         testing::Values("1f1b", "gpipe", "interleaved", "zb_h1", "zb_v", "dualpipe_v",
                                         "auto"),
                         [](const auto& info) {
                           return info.param == std::string("1f1b") ? "one_f_one_b" : info.param;
                         });

TEST(Offload, ChangesNoBitBesideOtherAxes) {
  for (const Keys& keys : {Keys{"parallel.dp=1"}, Keys{"parallel.dp=2"}, Keys{"parallel.tp=2"},
                           Keys{"parallel.tp=2", "parallel.sequence_parallel=false", "parallel.pp=2"},
                           Keys{"parallel.sp=2", "activation_checkpointing.mode=full"},
                           Keys{"parallel.dp=2", "parallel.zero_stage=3", "precision.compute=bf16"},
                           Keys{"parallel.dp=2", "parallel.zero_stage=2", "parallel.pp=2"}})
    expect_same_bits(odd_model("llama", 5) + Keys{"train.micro_batch_size=2"} + keys, kOffload);
}

// What a file has is what is done, whether offload is asked for or not.
TEST(Offload, ByHandIsAsTheFileHasIt) {
  const ScratchFolder folder;
  const std::string path = folder / "order.txt";
  const Keys keys =
      odd_model("llama", 4) + Keys{"train.micro_batch_size=2", "parallel.pp=2", "parallel.schedule=" + path};
  const auto write = [&](const char* text) { std::ofstream(path, std::ios::trunc) << text; };
  write("0F0 0F1 0F2 0F3 0B0 0B1 0B2 0B3\n1F0 1B0 1F1 1B1 1F2 1B2 1F3 1B3\n");
  const OffloadRun plain = run_two_steps(keys);
  write("0F0 0O0 0F1 0F2 0L0 0F3 0B0 0B1 0B2 0B3\n1F0 1B0 1F1 1O1 1F2 1L1 1B1 1B2 1F3 1B3\n");
  const OffloadRun hand = run_two_steps(keys), asked = run_two_steps(keys + kOffload);
  EXPECT_GT(hand.bytes, 0);
  EXPECT_EQ(hand.bytes, asked.bytes);
  EXPECT_EQ(hand.record.gradients, plain.record.gradients);
  expect_same_weights(hand.record, plain.record, "by hand");
}

}  // namespace
}  // namespace tessera::test
