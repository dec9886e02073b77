// SPDX-License-Identifier: Apache-2.0
// Layout strings, and the small copy of a big config.
#include "framework/train/compare_config.h"

#include <gtest/gtest.h>

#include "framework/config/resolve.h"
#include "framework/train/compare_shrink.h"

namespace tessera {
namespace {

using Words = std::vector<std::string>;

TEST(LayoutStrings, BareKeysAreOfParallel) {
  EXPECT_EQ(layout_overrides("tp=2  train.micro_batch_size=3\tdp=4"),
            (Words{"parallel.tp=2", "train.micro_batch_size=3", "parallel.dp=4"}));
  EXPECT_EQ(layout_overrides(""), Words{});
}

TEST(LayoutStrings, SpacesInsideValuesStay) {
  EXPECT_EQ(layout_overrides(R"(data.sources=[{path = "a b"}] tp=2)"),
            (Words{R"(data.sources=[{path = "a b"}])", "parallel.tp=2"}));
  EXPECT_EQ(layout_overrides("schedule='a b.csv'"), Words{"parallel.schedule='a b.csv'"});
}

TEST(LayoutStrings, RefuseWhatIsNoKeyAndValue) {
  for (const char* text : {"tp", "=2", "tp= 2", "tp=2 dp"})
    EXPECT_THROW(layout_overrides(text), Error) << text;
}

constexpr const char* kBig = R"(
[run]
name = "big"
[model]
architecture = "llama"
vocab_size = 128256
hidden_size = 4096
intermediate_size = 14336
num_hidden_layers = 33
num_attention_heads = 32
num_key_value_heads = 8
max_position_embeddings = 8192
sliding_window = 4096
[model.rope.scaling]
type = "llama3"
factor = 8.0
original_max_position_embeddings = 4096
[parallel]
dp = -1
[train]
micro_batch_size = 4
global_batch_size = 512
seq_length = 8192
tokens = 15_000_000_000_000
[optimizer]
lr = 3e-4
[lr_schedule]
warmup_steps = 8000
[activation_checkpointing]
mode = "full"
num_layers = 20
[[data.sources]]
path = "nowhere.txt"
)";

std::vector<CompareLayout> layouts_of(const Words& layouts) {
  std::vector<CompareLayout> result;
  for (const std::string& layout : layouts)
    result.push_back(
        {layout,
         parse_config(kBig, {.file = "big.toml", .overrides = layout_overrides(layout), .environment = {}})
             .config});
  return result;
}

TEST(Shrink, KeepsTheStructureAndTheRules) {
  std::vector<CompareLayout> layouts = layouts_of({"dp=1", "tp=4 dp=64 sequence_parallel=false"});
  shrink_layouts(layouts, 8, 5);
  for (CompareLayout& layout : layouts) {
    // A file could hold it: every rule is checked here.
    layout.config =
        parse_config(to_toml(layout.config), {.file = "small.toml", .overrides = {}, .environment = {}})
            .config;
    const RunConfig& c = layout.config;
    EXPECT_EQ(c.model, layouts[0].config.model);
    EXPECT_EQ(c.model.num_attention_heads / c.model.num_key_value_heads, 4);
    EXPECT_GT(c.model.num_key_value_heads, 1);
    EXPECT_LT(c.model.hidden_size, 64);
    EXPECT_EQ(c.model.intermediate_size % 2, 1);
    EXPECT_EQ(c.model.vocab_size, 257);
    EXPECT_EQ(c.model.num_hidden_layers, 3);
    EXPECT_EQ(c.model.sliding_window, 18);
    EXPECT_EQ(c.model.rope.scaling->original_max_position_embeddings, 18);
    EXPECT_EQ(c.train.seq_length, 37);
    EXPECT_EQ(c.activation_checkpointing.mode, ActivationCheckpointingSection::Mode::Full);
    EXPECT_EQ(c.activation_checkpointing.num_layers, 2);
    EXPECT_FALSE(c.parallel.sequence_parallel);
  }
  resolve_layouts(layouts);
  EXPECT_EQ(layouts[0].config.train.global_batch_size, layouts[1].config.train.global_batch_size);
  EXPECT_GE(layouts[1].config.train.gradient_accumulation_steps, 2);
  EXPECT_EQ(mesh_ranks(layouts[1].config), 8);
  EXPECT_EQ(layouts[0].name, "dp=1");
  EXPECT_EQ(layouts[1].name, "tp=4 dp=64 sequence_parallel=false shrunk to tp=4 sp=1 dp=2 pp=1");
}

TEST(Shrink, ReducesDataRanksFirstAndKeepsTwoOfEach) {
  const auto mesh = [](int64_t tp, int64_t pp, int64_t dp, int64_t most) {
    std::vector<CompareLayout> layouts = layouts_of({"dp=1", "dp=1"});
    ParallelSection& p = layouts[1].config.parallel;
    p.tp = tp;
    p.pp = pp;
    p.dp = dp;
    shrink_layouts(layouts, most, 5);
    return std::vector<int64_t>{p.tp, p.pp, p.dp};
  };
  EXPECT_EQ(mesh(2, 2, 2, 8), (std::vector<int64_t>{2, 2, 2}));
  EXPECT_EQ(mesh(2, 2, 64, 8), (std::vector<int64_t>{2, 2, 2}));
  EXPECT_EQ(mesh(8, 16, 8, 16), (std::vector<int64_t>{2, 4, 2}));
  EXPECT_EQ(mesh(8, 16, 8, 64), (std::vector<int64_t>{4, 8, 2}));
  EXPECT_EQ(mesh(3, 1, 1, 2), (std::vector<int64_t>{2, 1, 1}));
  EXPECT_EQ(mesh(1, 1, -1, 8), (std::vector<int64_t>{1, 1, 2}));
  EXPECT_THROW(mesh(8, 16, 8, 7), Error);
}

// Layers spread unevenly over the chunks of the pipeline where they did before.
TEST(Shrink, KeepsLayersUneven) {
  for (const int64_t layers : {32, 33}) {
    std::vector<CompareLayout> layouts = layouts_of({"dp=1", "dp=1"});
    for (CompareLayout& layout : layouts) layout.config.model.num_hidden_layers = layers;
    layouts[1].config.parallel.pp = 4;
    shrink_layouts(layouts, 8, 5);
    EXPECT_EQ(layouts[1].config.model.num_hidden_layers, layers == 32 ? 4 : 5);
    EXPECT_GE(layouts[1].config.train.global_batch_size, 8);
  }
}

TEST(Shrink, FewerKeyHeadsThanRanksStayFewer) {
  std::vector<CompareLayout> layouts = layouts_of({"dp=1", "tp=8 dp=1"});
  for (CompareLayout& layout : layouts) layout.config.model.num_key_value_heads = 1;
  shrink_layouts(layouts, 8, 5);
  EXPECT_EQ(layouts[1].config.model.num_key_value_heads, 1);
  EXPECT_EQ(layouts[1].config.model.num_attention_heads % 8, 0);
}

TEST(Synthetic, TokensAreReadAndRemoved) {
  std::string path;
  {
    std::vector<CompareLayout> layouts = layouts_of({"dp=1"});
    shrink_layouts(layouts, 8, 5);
    resolve_layouts(layouts);
    const SyntheticTokens tokens(layouts);
    path = layouts[0].config.data.sources.at(0).path;
    DataFeed feed(layouts[0].config, 0);
    const DataFeed::GlobalBatch batch = feed.next();
    EXPECT_GT(batch.microbatches.at(0).trained.value, 0);
    EXPECT_TRUE(std::filesystem::exists(path + ".bin"));
  }
  EXPECT_FALSE(std::filesystem::exists(path + ".bin"));
}

}  // namespace
}  // namespace tessera
