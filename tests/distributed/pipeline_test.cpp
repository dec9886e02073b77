// SPDX-License-Identifier: Apache-2.0
// Every schedule on a pipeline trains the same model (K10, K2): gradients bitwise those of one stage for pure
// pipelines, within rounding beside other axes.
#include <gtest/gtest.h>

#include "tests/support/parity_data.h"

namespace tessera::test {
namespace {

Keys model(const std::string& family) {
  const Keys common = varlen() + Keys{"model.num_hidden_layers=7", "train.seq_length=37",
                                      "model.hidden_dropout=0.1", "model.attention_dropout=0.1"};
  if (family == "gpt")  // tied
    return common + Keys{"model.architecture=gpt", "model.num_attention_heads=4", "model.hidden_size=40",
                         "model.num_key_value_heads=2", "model.max_position_embeddings=37"};
  return common + Keys{"model.hidden_size=40", "model.intermediate_size=56", "model.qk_norm=true"};
}

struct PipelineCase {
  const char* name;
  const char* family;
  Keys keys;
  bool bitwise = true;  // gradients of step 1 have the bits of one stage
};
std::ostream& operator<<(std::ostream& out, const PipelineCase& c) {
  return out << c.name;
}

class Pipelines : public testing::TestWithParam<PipelineCase> {};

TEST_P(Pipelines, TrainTheSameModel) {
  const PipelineCase& c = GetParam();
  const RunOptions options{.steps = 5, .edit = thin_out};
  const RunRecord reference = run_fixture(fixture_config(model(c.family)), options);
  const RunRecord run = run_fixture(fixture_config(model(c.family) + c.keys), options);
  expect_parity(run, reference, c.name);
  if (!c.bitwise) return;
  for (const auto& [name, values] : reference.gradients) EXPECT_EQ(run.gradients.at(name), values) << name;
  EXPECT_EQ(run.losses, reference.losses);
}

Keys on(int ranks, const std::string& schedule, const Keys& more = {}) {
  return Keys{"parallel.pp=" + std::to_string(ranks), "parallel.schedule=" + schedule} + more;
}

INSTANTIATE_TEST_SUITE_P(
    Schedules, Pipelines,
    testing::Values(
        PipelineCase{"one_f_one_b_2", "llama", on(2, "1f1b")},
        PipelineCase{"one_f_one_b_3_tied", "gpt", on(3, "1f1b"), false},
        PipelineCase{"one_f_one_b_4_two_microbatches", "llama", on(4, "1f1b", {"train.micro_batch_size=4"}),
                     false},
        PipelineCase{"gpipe_2", "llama", on(2, "gpipe")},
        PipelineCase{"interleaved_2_by_2", "llama", on(2, "interleaved", {"parallel.virtual_stages=2"})},
        PipelineCase{"interleaved_3_by_2_tied", "gpt", on(3, "interleaved", {"parallel.virtual_stages=2"}),
                     false},
        PipelineCase{"zb_h1_2", "llama", on(2, "zb_h1")}, PipelineCase{"zb_h2_3", "llama", on(3, "zb_h2")},
        PipelineCase{"zb_v_2_tied", "gpt", on(2, "zb_v"), false},
        PipelineCase{"v_half_3", "llama", on(3, "v_half")},
        PipelineCase{"v_min_3_tied", "gpt", on(3, "v_min"), false},
        PipelineCase{"dualpipe_v_2", "llama", on(2, "dualpipe_v")},
        PipelineCase{"one_microbatch", "gpt", on(3, "1f1b", {"train.micro_batch_size=8"}), false},
        PipelineCase{"recomputed_stages", "llama", on(2, "1f1b", {"activation_checkpointing.mode=stage"})},
        PipelineCase{"recomputed_blocks", "gpt", on(2, "zb_h1", {"activation_checkpointing.mode=full"}),
                     false},
        PipelineCase{"beside_dp", "gpt", on(2, "1f1b", {"parallel.dp=2"}), false},
        PipelineCase{"beside_tp", "llama", on(2, "zb_h1", {"parallel.tp=2"}), false},
        PipelineCase{"beside_tp_and_dp_tied", "gpt",
                     on(2, "interleaved", {"parallel.tp=2", "parallel.dp=2", "parallel.virtual_stages=3"}),
                     false},
        PipelineCase{"zero_1_tied", "gpt", on(2, "1f1b", {"parallel.dp=2", "parallel.zero_stage=1"}), false},
        PipelineCase{"zero_2", "llama", on(2, "1f1b", {"parallel.dp=2", "parallel.zero_stage=2"}), false},
        PipelineCase{"zero_2_tied_v", "gpt", on(2, "zb_v", {"parallel.dp=2", "parallel.zero_stage=2"}),
                     false},
        PipelineCase{"zero_3", "llama", on(2, "1f1b", {"parallel.dp=2", "parallel.zero_stage=3"}), false},
        PipelineCase{"zero_3_one_stage", "llama", {"parallel.dp=3", "parallel.zero_stage=3"}, false},
        PipelineCase{
            "zero_3_tied",
            "gpt",
            {"parallel.dp=2", "parallel.tp=2", "parallel.zero_stage=3", "activation_checkpointing.mode=full"},
            false},
        PipelineCase{"zero_3_tied_v", "gpt", on(2, "zb_v", {"parallel.dp=2", "parallel.zero_stage=3"}),
                     false}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tessera::test
