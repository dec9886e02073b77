// SPDX-License-Identifier: Apache-2.0
// Sequences cut over ranks train the same model: every mode, beside every other axis (K2, K12).
#include <gtest/gtest.h>

#include "tests/support/parity_data.h"

namespace tessera::test {
namespace {

class Sequences : public testing::TestWithParam<LayoutCase> {};

TEST_P(Sequences, TrainTheSameModel) {
  LayoutCase c = GetParam();
  // A window hides whole chunks of keys.
  if (std::string(c.family) == "llama") c.common = {"model.sliding_window=11"};
  expect_same_model(c, 3);
}

INSTANTIATE_TEST_SUITE_P(
    Modes, Sequences,
    testing::Values(
        LayoutCase{"ring_2", "llama", {"parallel.sp=2"}},
        LayoutCase{"ring_3_gpt", "gpt", {"parallel.sp=3", "train.micro_batch_size=2"}},
        LayoutCase{"ulysses_2", "llama", {"parallel.sp=2", "parallel.sp_mode=ulysses"}},
        LayoutCase{"ulysses_3_gpt", "gpt", {"parallel.sp=3", "parallel.sp_mode=ulysses"}},
        LayoutCase{"allgather_2_gpt", "gpt", {"parallel.sp=2", "parallel.sp_mode=allgather"}},
        LayoutCase{"allgather_3",
                   "llama",
                   {"parallel.sp=3", "parallel.sp_mode=allgather", "train.micro_batch_size=3"}},
        LayoutCase{"ring_beside_dp_recomputed",
                   "llama",
                   {"parallel.sp=2", "parallel.dp=2", "activation_checkpointing.mode=full"}},
        LayoutCase{"ring_beside_tp", "gpt", {"parallel.sp=2", "parallel.tp=2"}},
        LayoutCase{"ulysses_beside_tp_selective",
                   "llama",
                   {"parallel.sp=2", "parallel.tp=3", "parallel.sp_mode=ulysses",
                    "activation_checkpointing.mode=selective"}},
        LayoutCase{"allgather_beside_tp_whole_rows",
                   "gpt",
                   {"parallel.sp=2", "parallel.tp=2", "parallel.sequence_parallel=false",
                    "parallel.sp_mode=allgather"}},
        LayoutCase{"ring_on_a_pipeline", "gpt", {"parallel.sp=2", "parallel.pp=2"}},
        LayoutCase{"ring_on_a_pipeline_beside_tp",
                   "llama",
                   {"parallel.sp=2", "parallel.pp=2", "parallel.tp=2", "parallel.schedule=zb_h1"}},
        LayoutCase{"ring_under_zero_1", "llama", {"parallel.sp=2", "parallel.zero_stage=1"}},
        LayoutCase{"ring_under_zero_3", "gpt", {"parallel.sp=2", "parallel.dp=2", "parallel.zero_stage=3"}}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tessera::test
