// SPDX-License-Identifier: Apache-2.0
// Every schedule on a pipeline trains the same model (K10, K2): gradients bitwise those of one stage for pure
// pipelines, within rounding beside other axes.
#include <gtest/gtest.h>

#include <fstream>

#include "framework/parallel/pipeline/generate.h"
#include "framework/parallel/pipeline/passes.h"
#include "tests/support/parity_data.h"
#include "tests/support/scratch_folder.h"

namespace tessera::test {
namespace {

class Pipelines : public testing::TestWithParam<LayoutCase> {};

TEST_P(Pipelines, TrainTheSameModel) {
  expect_same_model(GetParam(), 7);
}

Keys on(int ranks, const std::string& schedule, const Keys& more = {}) {
  return Keys{"parallel.pp=" + std::to_string(ranks), "parallel.schedule=" + schedule} + more;
}

LayoutCase bitwise(LayoutCase c) {
  c.bitwise = true;
  return c;
}

// An order that no form has: weight gradients of rank 1 last.
std::string schedule_file() {
  return "parallel.schedule=" TESSERA_SOURCE_DIR "/tests/fixtures/pipeline/two_ranks_8.txt";
}

// One in which forwards and backwards run together.
std::string together_file() {
  return "parallel.schedule=" TESSERA_SOURCE_DIR "/tests/fixtures/pipeline/two_ranks_8_together.txt";
}

// Turns change when which sum is made, and none of the sums.
TEST(Together, HasTheBitsOfOneByOne) {
  ScratchFolder folder;
  const auto file = folder.path() / "one_by_one.txt";
  std::ofstream(file) << to_text(one_by_one(dualpipe_v(2, 8)));
  for (const Keys& axis : {Keys{"parallel.tp=2"}, Keys{"parallel.sp=2", "parallel.sp_mode=ulysses"}}) {
    SCOPED_TRACE(axis.back());
    const Keys model = odd_model("llama", 5);
    const RunOptions options{.steps = 2, .edit = thin_out};
    const RunRecord together = run_fixture(fixture_config(model + on(2, "dualpipe_v", axis)), options);
    const RunRecord apart = run_fixture(fixture_config(model + on(2, file.string(), axis)), options);
    EXPECT_EQ(together.losses, apart.losses);
    ASSERT_FALSE(apart.gradients.empty());
    for (const auto& [name, values] : apart.gradients) EXPECT_EQ(together.gradients.at(name), values) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Schedules, Pipelines,
    testing::Values(
        bitwise(LayoutCase{"one_f_one_b_2", "llama", on(2, "1f1b")}),
        LayoutCase{"one_f_one_b_3_tied", "gpt", on(3, "1f1b")},
        LayoutCase{"one_f_one_b_4_two_microbatches", "llama", on(4, "1f1b", {"train.micro_batch_size=4"})},
        bitwise(LayoutCase{"gpipe_2", "llama", on(2, "gpipe")}),
        bitwise(LayoutCase{"interleaved_2_by_2", "llama",
                           on(2, "interleaved", {"parallel.virtual_stages=2"})}),
        LayoutCase{"interleaved_3_by_2_tied", "gpt", on(3, "interleaved", {"parallel.virtual_stages=2"})},
        bitwise(LayoutCase{"zb_h1_2", "llama", on(2, "zb_h1")}),
        bitwise(LayoutCase{"zb_h2_3", "llama", on(3, "zb_h2")}),
        LayoutCase{"zb_v_2_tied", "gpt", on(2, "zb_v")},
        bitwise(LayoutCase{"v_half_3", "llama", on(3, "v_half")}),
        LayoutCase{"v_min_3_tied", "gpt", on(3, "v_min")},
        bitwise(LayoutCase{"dualpipe_v_2", "llama", on(2, "dualpipe_v")}),
        bitwise(LayoutCase{"together_from_a_file", "llama", {"parallel.pp=2", together_file()}}),
        LayoutCase{"dualpipe_v_beside_tp", "llama", on(2, "dualpipe_v", {"parallel.tp=2"})},
        LayoutCase{"dualpipe_v_beside_tp_whole_rows_tied", "gpt",
                   on(2, "dualpipe_v", {"parallel.tp=2", "parallel.sequence_parallel=false"})},
        LayoutCase{"dualpipe_v_beside_ulysses", "llama",
                   on(2, "dualpipe_v", {"parallel.sp=2", "parallel.sp_mode=ulysses"})},
        LayoutCase{"dualpipe_v_beside_allgather_recomputed", "gpt",
                   on(2, "dualpipe_v",
                      {"parallel.sp=2", "parallel.sp_mode=allgather", "activation_checkpointing.mode=full"})},
        LayoutCase{
            "dualpipe_v_beside_tp_and_ring_recomputed_stages", "llama",
            on(2, "dualpipe_v", {"parallel.tp=2", "parallel.sp=2", "activation_checkpointing.mode=stage"})},
        LayoutCase{
            "dualpipe_v_beside_tp_zero_3",
            "gpt",
            on(2, "dualpipe_v",
               {"parallel.tp=2", "parallel.dp=2", "parallel.zero_stage=3", "train.global_batch_size=16"}),
            {"train.global_batch_size=16"}},
        bitwise(LayoutCase{"auto_3", "llama", on(3, "auto", {"parallel.live_activations=6"})}),
        bitwise(LayoutCase{"auto_2", "llama", on(2, "auto")}),
        LayoutCase{"auto_2_tied_v", "gpt", on(2, "auto", {"parallel.dp=2", "parallel.zero_stage=2"})},
        bitwise(LayoutCase{"from_a_file", "llama", {"parallel.pp=2", schedule_file()}}),
        LayoutCase{"from_a_file_tied_zero_3",
                   "gpt",
                   {"parallel.pp=2", "parallel.dp=2", "train.global_batch_size=16", "parallel.zero_stage=3",
                    schedule_file()},
                   {"train.global_batch_size=16"}},
        LayoutCase{"one_microbatch", "gpt", on(3, "1f1b", {"train.micro_batch_size=8"})},
        bitwise(LayoutCase{"recomputed_stages", "llama",
                           on(2, "1f1b", {"activation_checkpointing.mode=stage"})}),
        LayoutCase{"recomputed_blocks", "gpt", on(2, "zb_h1", {"activation_checkpointing.mode=full"})},
        LayoutCase{"beside_dp", "gpt", on(2, "1f1b", {"parallel.dp=2"})},
        LayoutCase{"beside_tp", "llama", on(2, "zb_h1", {"parallel.tp=2"})},
        LayoutCase{"beside_tp_and_dp_tied", "gpt",
                   on(2, "interleaved", {"parallel.tp=2", "parallel.dp=2", "parallel.virtual_stages=3"})},
        LayoutCase{"zero_1_tied", "gpt", on(2, "1f1b", {"parallel.dp=2", "parallel.zero_stage=1"})},
        LayoutCase{"zero_2", "llama", on(2, "1f1b", {"parallel.dp=2", "parallel.zero_stage=2"})},
        LayoutCase{"zero_2_tied_v", "gpt", on(2, "zb_v", {"parallel.dp=2", "parallel.zero_stage=2"})},
        LayoutCase{"zero_3", "llama", on(2, "1f1b", {"parallel.dp=2", "parallel.zero_stage=3"})},
        LayoutCase{"zero_3_one_stage", "llama", {"parallel.dp=3", "parallel.zero_stage=3"}},
        LayoutCase{"zero_3_tied",
                   "gpt",
                   {"parallel.dp=2", "parallel.tp=2", "parallel.zero_stage=3",
                    "activation_checkpointing.mode=full"}},
        LayoutCase{"zero_3_tied_v", "gpt", on(2, "zb_v", {"parallel.dp=2", "parallel.zero_stage=3"})}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tessera::test
