// SPDX-License-Identifier: Apache-2.0
// Every axis of the mesh against one rank, on odd sizes: 7 layers, a vocabulary of 1003, two key heads, odd
// lengths, documents of 1 to 200 tokens (K2, K3, K4).
#include <gtest/gtest.h>

#include "tests/support/parity_data.h"

namespace tessera::test {
namespace {

class Layouts : public testing::TestWithParam<LayoutCase> {};

TEST_P(Layouts, TrainTheSameModel) {
  expect_same_model(GetParam(), 7);
}

// Rows of whole documents, with padding at their ends.
const Keys kFirstFit = {"data.packing=first_fit"};

INSTANTIATE_TEST_SUITE_P(
    FirstFit, Layouts,
    testing::Values(LayoutCase{"dp3_zero3", "llama", {"parallel.dp=3", "parallel.zero_stage=3"}, kFirstFit},
                    LayoutCase{"sp3_ring", "llama", {"parallel.sp=3"}, kFirstFit},
                    LayoutCase{"sp2_ulysses_tp2_gpt",
                               "gpt",
                               {"parallel.sp=2", "parallel.sp_mode=ulysses", "parallel.tp=2"},
                               kFirstFit},
                    LayoutCase{"pp2_gpt", "gpt", {"parallel.pp=2", "train.micro_batch_size=2"}, kFirstFit}),
    [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Axes, Layouts,
    testing::Values(LayoutCase{"tp2", "llama", {"parallel.tp=2", "parallel.sequence_parallel=false"}},
                    LayoutCase{"tp3_gpt", "gpt", {"parallel.tp=3", "parallel.sequence_parallel=false"}},
                    LayoutCase{"tp4_sequence", "llama", {"parallel.tp=4"}},
                    LayoutCase{"tp3_sequence_gpt", "gpt", {"parallel.tp=3", "parallel.dp=2"}},
                    LayoutCase{"tp2_sequence_keeps_inputs",
                               "llama",
                               {"parallel.tp=2", "comm.regather_inputs=false", "train.micro_batch_size=2"}},
                    LayoutCase{
                        "tp2_sequence_full", "gpt", {"parallel.tp=2", "activation_checkpointing.mode=full"}}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tessera::test
