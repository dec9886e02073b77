// SPDX-License-Identifier: Apache-2.0
// The resolved config reads back to itself; the generated pages are the committed ones; every config of the
// repository loads. TESSERA_UPDATE_DOCS=1 in the environment writes the pages anew.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "framework/config/resolve.h"
#include "framework/config/schema.h"
#include "tests/unit/config/config_text.h"

namespace tessera::config_test {
namespace {

namespace fs = std::filesystem;

const fs::path kSource = TESSERA_SOURCE_DIR;

std::string content(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::vector<fs::path> configs_of_the_repository() {
  std::vector<fs::path> files = {kSource / "tests/fixtures/parity.toml"};
  for (const auto& entry : fs::recursive_directory_iterator(kSource / "configs"))
    if (entry.path().extension() == ".toml" && entry.path().parent_path().filename() != "clusters")
      files.push_back(entry.path());
  return files;
}

void expect_round_trip(const RunConfig& config) {
  const std::string text = to_toml(config);
  const LoadedConfig again = load_text(text);
  EXPECT_EQ(to_toml(again.config), text);
  EXPECT_TRUE(config == again.config) << text;
  EXPECT_TRUE(differences(config, again.config).empty());
}

// Every key away from its default.
ConfigText unusual() {
  ConfigText text = ConfigText().llama();
  text.set("run", "name", "\"a $${b} \\\"c\\\" \\\\ \xc3\xa9\"").set("run", "output_dir", "\"out $${x}\"");
  text.set("run", "seed", "9223372036854775807").set("run", "threads_per_rank", "3");
  text.set("model", "num_key_value_heads", "2")
      .set("model", "head_dim", "6")
      .set("model", "norm_eps", "1e-310");
  text.set("model", "initializer_range", "0.1234567890123456789").set("model", "sliding_window", "7");
  text.set("model", "hidden_act", "\"gelu\"")
      .set("model", "mlp_gated", "false")
      .set("model", "qk_norm", "true");
  text.set("model", "norm", "\"layernorm\"").set("model", "attention_dropout", "0.1");
  text.set("model", "hidden_dropout", "0.3").set("model.rope", "theta", "500000.0");
  text.set("model.rope.scaling", "type", "\"yarn\"").set("model.rope.scaling", "factor", "3.0");
  text.set("model.rope.scaling", "original_max_position_embeddings", "11");
  text.set("train", "grad_clip", "0.0")
      .set("train", "label_smoothing", "0.1")
      .set("train", "eval_interval", "3");
  text.set("optimizer", "betas", "[0.8, 0.99]").set("optimizer", "eps", "1e-20");
  text.set("optimizer.groups", "match", "\"*.bias\"").set("optimizer.groups", "weight_decay", "0.0");
  text.set("lr_schedule", "type", "\"wsd\"").set("lr_schedule", "wsd_decay_steps", "4");
  text.set("precision", "compute", "\"fp16\"").set("precision.loss_scale", "initial", "1024.0");
  text.set("activation_checkpointing", "mode", "\"budget\"");
  text.set("activation_checkpointing", "memory_budget_gb", "0.125");
  text.set("data", "split", "[0.9, 0.1]")
      .set("data", "document_mask", "false")
      .set("data", "shuffle_seed", "0");
  text.set("data.sources", "weight", "0.25").set("data.sources", "format", "\"text\"");
  text.set("data.stages", "start", "7")
      .set("data.stages", "weights", "[0.1]")
      .set("data.stages", "seq_length", "5");
  text.set("checkpoint", "interval", "3")
      .set("checkpoint", "keep_every", "9")
      .set("checkpoint", "shared_fs", "false");
  text.set("checkpoint", "memory_budget_gb", "0.3");
  text.set("fault_tolerance", "signals", "[]")
      .set("debug", "dump_steps", "[1, 7]")
      .set("debug", "poison", "true");
  return text;
}

TEST(RoundTrip, TheResolvedConfigReadsBackToItself) {
  const std::vector<ConfigText> texts = {ConfigText(), ConfigText().llama(), unusual()};
  for (const ConfigText& text : texts) {
    RunConfig config = load(text).config;
    expect_round_trip(config);
    resolve_parallel(config, 3);
    expect_round_trip(config);
  }
}

TEST(RoundTrip, PrintsEveryKeyThatHasAValue) {
  const std::string text = to_toml(load(unusual()).config);
  for (const config::Section& section : config::schema())
    for (const config::Key& key : section.keys) {
      const bool unset = key.is_later() || key.facts.presence == config::Presence::Optional ||
                         key.facts.presence == config::Presence::Derived;
      EXPECT_TRUE(unset || contains(text, "\n" + key.name + " = ")) << section.name << "." << key.name;
    }
}

TEST(Differences, ListChangedKeysWithBothValues) {
  const RunConfig before = load(ConfigText()).config;
  const RunConfig after =
      load(ConfigText().set("train", "steps", "30").set("model", "sliding_window", "5")).config;
  const auto changed = differences(before, after);
  ASSERT_EQ(changed.size(), 2u);
  EXPECT_EQ(changed[0].key, "model.sliding_window");
  EXPECT_EQ(changed[0].before, "(absent)");
  EXPECT_EQ(changed[0].after, "5");
  EXPECT_EQ(changed[1].key, "train.steps");
  EXPECT_EQ(changed[1].before, "20");
  EXPECT_EQ(changed[1].after, "30");
  const std::string two = ConfigText().text() + "[[data.sources]]\npath = \"other.txt\"\n";
  const auto added = differences(before, load_text(two).config);
  ASSERT_EQ(added.size(), 4u);
  EXPECT_EQ(added[0].key, "data.sources[1].format");
}

TEST(Pages, AreTheGeneratedOnes) {
  const std::vector<std::pair<fs::path, std::string>> pages = {
      {kSource / "docs/config.md", reference_markdown()},
      {kSource / "docs/config.schema.json", json_schema()}};
  for (const auto& [path, text] : pages) {
    if (std::getenv("TESSERA_UPDATE_DOCS") != nullptr) std::ofstream(path, std::ios::binary) << text;
    EXPECT_TRUE(content(path) == text) << path << " is not current: run this test with TESSERA_UPDATE_DOCS=1";
  }
}

TEST(Pages, HaveEveryKey) {
  const std::string page = reference_markdown();
  const auto schema = nlohmann::json::parse(json_schema());
  for (const config::Section& section : config::schema()) {
    EXPECT_TRUE(contains(page, "[" + section.name + "]"));
    for (const config::Key& key : section.keys) {
      const bool is_listed = section.kind != config::Section::Kind::Later;
      EXPECT_TRUE(!is_listed || contains(page, "| `" + key.name + "` |"));
      if (key.is_later()) continue;
      std::string pointer;
      std::string rest = section.name + ".";
      for (size_t dot = rest.find('.'); dot != std::string::npos;
           rest = rest.substr(dot + 1), dot = rest.find('.')) {
        pointer += "/properties/" + rest.substr(0, dot);
        if (schema.contains(nlohmann::json::json_pointer(pointer + "/items"))) pointer += "/items";
      }
      EXPECT_TRUE(schema.contains(nlohmann::json::json_pointer(pointer + "/properties/" + key.name)))
          << pointer;
      EXPECT_FALSE(key.facts.help.empty()) << section.name << "." << key.name;
    }
  }
}

TEST(Configs, OfTheRepositoryLoadResolveAndReadBack) {
  const auto files = configs_of_the_repository();
  EXPECT_GE(files.size(), 7u);
  for (const fs::path& file : files) {
    LoadedConfig loaded = load_config({file, {}, {}});
    EXPECT_TRUE(loaded.notes.empty()) << file;
    const ParallelSection& mesh = loaded.config.parallel;
    for (const int64_t replicas : {1, 2, 3}) {
      RunConfig config = loaded.config;
      resolve_parallel(config, replicas * mesh.tp * mesh.sp * mesh.pp);
      expect_round_trip(config);
    }
  }
}

TEST(Configs, HaveTheSizesOfTheirPapers) {
  const auto model = [](const char* file) {
    return load_config({kSource / "configs" / file, {}, {}}).config.model;
  };
  const ModelSection gpt3 = model("gpt/gpt175b.toml");
  EXPECT_EQ(gpt3.intermediate_size, 49152);
  EXPECT_EQ(gpt3.head_dim, 128);
  const ModelSection gpt2 = model("gpt/gpt2_124m.toml");
  EXPECT_EQ(gpt2.intermediate_size, 3072);
  EXPECT_EQ(gpt2.max_position_embeddings, 1024);
  const ModelSection llama = model("llama/llama3_8b.toml");
  EXPECT_EQ(llama.head_dim, 128);
  EXPECT_EQ(llama.num_key_value_heads, 8);
  EXPECT_EQ(llama.rope.theta, 500000.0);
  EXPECT_FALSE(llama.tie_word_embeddings);
}

}  // namespace
}  // namespace tessera::config_test
