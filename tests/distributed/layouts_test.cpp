// SPDX-License-Identifier: Apache-2.0
// Every axis of the mesh against one rank, on odd sizes: 7 layers, a vocabulary of 1003, two key heads, odd
// lengths, documents of 1 to 200 tokens (K2, K3, K4).
#include <gtest/gtest.h>

#include "tests/support/parity_data.h"

namespace tessera::test {
namespace {

Keys family(const std::string& name) {
  const Keys common = varlen() + Keys{"model.num_hidden_layers=7", "train.seq_length=37",
                                      "model.hidden_dropout=0.1", "model.attention_dropout=0.1"};
  if (name == "gpt")
    return common + Keys{"model.architecture=gpt", "model.num_attention_heads=12", "model.hidden_size=60",
                         "model.num_key_value_heads=2", "model.max_position_embeddings=37"};
  return common + Keys{"model.num_attention_heads=12", "model.hidden_size=72", "model.num_key_value_heads=2",
                       "model.qk_norm=true"};
}

struct LayoutCase {
  const char* name;
  const char* family;
  Keys keys;
};
std::ostream& operator<<(std::ostream& out, const LayoutCase& c) {
  return out << c.name;
}

class Layouts : public testing::TestWithParam<LayoutCase> {};

TEST_P(Layouts, TrainTheSameModel) {
  const LayoutCase& c = GetParam();
  const RunOptions options{.steps = 5, .edit = thin_out};
  const RunRecord reference = run_fixture(fixture_config(family(c.family)), options);
  expect_parity(run_fixture(fixture_config(family(c.family) + c.keys), options), reference, c.name);
}

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
