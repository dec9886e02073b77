// SPDX-License-Identifier: Apache-2.0
// Sequences cut over ranks train the same model: every mode, beside every other axis (K2, K12).
#include <gtest/gtest.h>

#include "tests/support/parity_data.h"

namespace tessera::test {
namespace {

Keys model(const std::string& family) {
  const Keys common = varlen() + Keys{"model.num_hidden_layers=3", "train.seq_length=37",
                                      "model.hidden_dropout=0.1", "model.attention_dropout=0.1"};
  if (family == "gpt")
    return common + Keys{"model.architecture=gpt", "model.num_attention_heads=12", "model.hidden_size=60",
                         "model.num_key_value_heads=2", "model.max_position_embeddings=37"};
  return common + Keys{"model.num_attention_heads=12", "model.hidden_size=72", "model.num_key_value_heads=2",
                       "model.qk_norm=true", "model.sliding_window=11"};
}

struct SequenceCase {
  const char* name;
  const char* family;
  Keys keys;
};
std::ostream& operator<<(std::ostream& out, const SequenceCase& c) {
  return out << c.name;
}

class Sequences : public testing::TestWithParam<SequenceCase> {};

TEST_P(Sequences, TrainTheSameModel) {
  const SequenceCase& c = GetParam();
  const RunOptions options{.steps = 5, .edit = thin_out};
  const RunRecord reference = run_fixture(fixture_config(model(c.family)), options);
  expect_parity(run_fixture(fixture_config(model(c.family) + c.keys), options), reference, c.name);
}

INSTANTIATE_TEST_SUITE_P(
    Modes, Sequences,
    testing::Values(
        SequenceCase{"ring_2", "llama", {"parallel.sp=2"}},
        SequenceCase{"ring_3_gpt", "gpt", {"parallel.sp=3", "train.micro_batch_size=2"}},
        SequenceCase{"ulysses_2", "llama", {"parallel.sp=2", "parallel.sp_mode=ulysses"}},
        SequenceCase{"ulysses_3_gpt", "gpt", {"parallel.sp=3", "parallel.sp_mode=ulysses"}},
        SequenceCase{"allgather_2_gpt", "gpt", {"parallel.sp=2", "parallel.sp_mode=allgather"}},
        SequenceCase{"allgather_3",
                     "llama",
                     {"parallel.sp=3", "parallel.sp_mode=allgather", "train.micro_batch_size=3"}},
        SequenceCase{"ring_beside_dp_recomputed",
                     "llama",
                     {"parallel.sp=2", "parallel.dp=2", "activation_checkpointing.mode=full"}},
        SequenceCase{"ring_beside_tp", "gpt", {"parallel.sp=2", "parallel.tp=2"}},
        SequenceCase{"ulysses_beside_tp_selective",
                     "llama",
                     {"parallel.sp=2", "parallel.tp=3", "parallel.sp_mode=ulysses",
                      "activation_checkpointing.mode=selective"}},
        SequenceCase{"allgather_beside_tp_whole_rows",
                     "gpt",
                     {"parallel.sp=2", "parallel.tp=2", "parallel.sequence_parallel=false",
                      "parallel.sp_mode=allgather"}},
        SequenceCase{"ring_on_a_pipeline", "gpt", {"parallel.sp=2", "parallel.pp=2"}},
        SequenceCase{"ring_on_a_pipeline_beside_tp",
                     "llama",
                     {"parallel.sp=2", "parallel.pp=2", "parallel.tp=2", "parallel.schedule=zb_h1"}},
        SequenceCase{"ring_under_zero_1", "llama", {"parallel.sp=2", "parallel.zero_stage=1"}},
        SequenceCase{
            "ring_under_zero_3", "gpt", {"parallel.sp=2", "parallel.dp=2", "parallel.zero_stage=3"}}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tessera::test
