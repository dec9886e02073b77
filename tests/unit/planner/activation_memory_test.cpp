// SPDX-License-Identifier: Apache-2.0
// What a block keeps for its backward, in bytes, against Korthikanti et al. 2022 (arXiv 2205.05198) less the
// terms that our modules do not keep. docs/memory.md has the table; the figures here are its rows.
#include <gtest/gtest.h>

#include "framework/config/load.h"
#include "framework/config/resolve.h"
#include "framework/train/predict.h"
#include "models/registry.h"

namespace tessera {
namespace {

constexpr int64_t kHidden = 64, kHeads = 8, kRows = 3, kLength = 40;
constexpr int64_t kTokens = kRows * kLength, sbh = kTokens * kHidden;

RunConfig gpt(int ranks, const std::string& extra) {
  const std::string text = R"(
[run]
name = "test"
peak_flops = 1e12
[model]
architecture = "gpt"
vocab_size = 1003
hidden_size = 64
intermediate_size = 256
num_hidden_layers = 2
num_attention_heads = 8
max_position_embeddings = 64
attention_dropout = 0.1
hidden_dropout = 0.1
[train]
micro_batch_size = 3
global_batch_size = 3
seq_length = 40
steps = 5
[optimizer]
lr = 1e-3
[precision]
compute = "bf16"
[[data.sources]]
path = "x.txt"
)" + extra +
                           "\n[parallel]\ntp=" + std::to_string(ranks) + "\n";
  RunConfig config = parse_config(text, {.file = "test.toml", .overrides = {}, .environment = {}}).config;
  resolve_parallel(config, ranks);
  return config;
}

int64_t kept_by_a_block(RunConfig config, int ranks, bool rows_cut) {
  config.parallel.sequence_parallel = rows_cut;
  return predict_memory(config, define_model(config), ranks, 1).saved_by_unit.at(1);
}

// The paper's terms of one layer, in bytes at 16 bit, and which of them our modules keep.
struct Term {
  const char* name;
  int64_t bytes;  // on one rank
  bool cut;       // over tensor ranks without sequence parallelism
  bool kept;
};
const std::vector<Term>& paper() {
  constexpr int64_t scores = kHeads * kLength * kTokens;  // a s^2 b
  static const std::vector<Term> terms{
      {"inputs of the two norms", 4 * sbh, false, true},
      {"input of query, key and value", 2 * sbh, false, false},  // the norm's output is made again
      {"query, key", 4 * sbh, true, true},
      {"softmax output, dropout mask and output", 5 * scores, true, false},  // never in memory
      {"value", 2 * sbh, true, true},
      {"input of the output projection", 2 * sbh, true, true},
      {"mask of the attention's dropout", sbh, false, false},  // a function of position
      {"input of the up projection", 2 * sbh, false, false},   // the norm's output is made again
      {"input of the activation", 8 * sbh, true, true},
      {"input of the down projection", 8 * sbh, true, true},
      {"mask of the mlp's dropout", sbh, false, false},
  };
  return terms;
}

// What we keep and the paper does not count: fp32 statistics.
int64_t statistics(int ranks, bool rows_cut) {
  const int64_t norms = 2 * 2 * 4 * kTokens / (rows_cut ? ranks : 1);  // mean and 1 / deviation, twice
  const int64_t attention = 4 * kHeads / ranks * kTokens;              // log-sum-exp
  return norms + attention;
}

int64_t expected(int ranks, bool rows_cut) {
  int64_t bytes = statistics(ranks, rows_cut);
  for (const Term& term : paper())
    if (term.kept) bytes += term.bytes / (term.cut || rows_cut ? ranks : 1);
  return bytes;
}

TEST(ActivationMemory, TheTermsAddUpToThePapersFormulas) {
  int64_t whole = 0, cut = 0;
  for (const Term& term : paper()) (term.cut ? cut : whole) += term.bytes;
  const int64_t scores = kHeads * kLength * kTokens;
  EXPECT_EQ(whole + cut, 34 * sbh + 5 * scores);
  EXPECT_EQ(whole, 10 * sbh);
  EXPECT_EQ(cut, 24 * sbh + 5 * scores);
}

TEST(ActivationMemory, IsThePapersLessWhatWeMakeAgain) {
  for (const int ranks : {1, 2, 4, 8})
    for (const bool rows_cut : {false, true})
      EXPECT_EQ(kept_by_a_block(gpt(ranks, ""), ranks, rows_cut && ranks > 1),
                expected(ranks, rows_cut && ranks > 1))
          << ranks << " ranks, rows cut: " << rows_cut;
}

TEST(ActivationMemory, KeptInputsAddTheWholeOnes) {
  for (const int ranks : {2, 4})
    EXPECT_EQ(kept_by_a_block(gpt(ranks, "[comm]\nregather_inputs=false"), ranks, true),
              expected(ranks, true) + 2 * 2 * sbh);
}

TEST(ActivationMemory, FullRecomputationKeepsTheInput) {
  const std::string full = "[activation_checkpointing]\nmode=\"full\"";
  for (const int ranks : {1, 2, 4}) {
    EXPECT_EQ(kept_by_a_block(gpt(ranks, full), ranks, false), 2 * sbh);
    if (ranks > 1) {
      EXPECT_EQ(kept_by_a_block(gpt(ranks, full), ranks, true), 2 * sbh / ranks);
    }
  }
}

}  // namespace
}  // namespace tessera
