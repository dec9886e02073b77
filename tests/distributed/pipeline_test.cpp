// SPDX-License-Identifier: Apache-2.0
// Every schedule on a pipeline trains the same model (K10, K2): gradients bitwise those of one stage for pure
// pipelines, within rounding beside other axes.
#include <gtest/gtest.h>

#include "tests/support/parity_data.h"

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
