// SPDX-License-Identifier: Apache-2.0
// Derived values, what must hold between keys, and what is refused because nothing supports it.
#include "framework/config/rules.h"

#include <fmt/core.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "framework/config/resolve.h"
#include "tests/support/scratch_folder.h"
#include "tests/unit/config/config_text.h"

namespace tessera::config_test {
namespace {

using Model = ModelSection;

TEST(Derived, FollowTheArchitecture) {
  const RunConfig gpt = load(ConfigText()).config;
  EXPECT_EQ(gpt.model.intermediate_size, 256);
  EXPECT_EQ(gpt.model.num_key_value_heads, 4);
  EXPECT_EQ(gpt.model.head_dim, 16);
  EXPECT_EQ(gpt.model.max_position_embeddings, 33);
  EXPECT_EQ(gpt.model.position, Model::Position::Learned);
  EXPECT_EQ(gpt.model.norm, Model::Norm::LayerNorm);
  EXPECT_EQ(gpt.model.hidden_act, Model::Activation::GeluNew);
  EXPECT_FALSE(gpt.model.mlp_gated);
  EXPECT_TRUE(gpt.model.attention_bias && gpt.model.mlp_bias && gpt.model.tie_word_embeddings);

  const RunConfig llama = load(ConfigText().llama()).config;
  EXPECT_EQ(llama.model.position, Model::Position::Rope);
  EXPECT_EQ(llama.model.norm, Model::Norm::RmsNorm);
  EXPECT_EQ(llama.model.hidden_act, Model::Activation::Silu);
  EXPECT_TRUE(llama.model.mlp_gated);
  EXPECT_FALSE(llama.model.attention_bias || llama.model.mlp_bias || llama.model.tie_word_embeddings);
  EXPECT_EQ(error_of(ConfigText().llama().remove("model", "intermediate_size")),
            "run.toml:3:2: [model] lacks intermediate_size, which llama needs");
}

TEST(Derived, GiveWayToWhatIsWritten) {
  ConfigText text;
  text.llama().set("model", "position", "\"learned\"").set("model", "norm", "\"layernorm\"");
  text.set("model", "hidden_act", "\"gelu\"").set("model", "mlp_gated", "false");
  text.set("model", "attention_bias", "true").set("model", "tie_word_embeddings", "true");
  const Model model = load(text).config.model;
  EXPECT_EQ(model.position, Model::Position::Learned);
  EXPECT_EQ(model.norm, Model::Norm::LayerNorm);
  EXPECT_EQ(model.hidden_act, Model::Activation::Gelu);
  EXPECT_FALSE(model.mlp_gated || model.mlp_bias);
  EXPECT_TRUE(model.attention_bias && model.tie_word_embeddings);
}

TEST(Derived, FollowOtherSections) {
  const RunConfig plain = load(ConfigText()).config;
  EXPECT_EQ(plain.data.shuffle_seed, 1234);
  EXPECT_EQ(plain.data.sources[0].name, "corpus");
  EXPECT_EQ(plain.precision.compute, FloatType::Fp32);
  EXPECT_EQ(plain.precision.loss_scale.type, LossScale::Type::None);
  EXPECT_EQ(plain.activation_checkpointing.mode, ActivationCheckpointingSection::Mode::None);
  const RunConfig half =
      load(ConfigText().set("precision", "compute", "\"fp16\"").set("run", "seed", "7")).config;
  EXPECT_EQ(half.precision.loss_scale.type, LossScale::Type::Dynamic);
  EXPECT_EQ(half.data.shuffle_seed, 7);
}

TEST(Derived, RopeScalings) {
  ConfigText yarn = ConfigText().llama();
  yarn.set("model.rope.scaling", "type", "\"yarn\"").set("model.rope.scaling", "factor", "4.0");
  EXPECT_TRUE(contains(error_of(yarn), "lacks original_max_position_embeddings, which \"yarn\" needs"));
  yarn.set("model.rope.scaling", "original_max_position_embeddings", "8");
  const RopeScaling scaling = *load(yarn).config.model.rope.scaling;
  EXPECT_EQ(scaling.type, RopeScaling::Type::Yarn);
  EXPECT_DOUBLE_EQ(scaling.attention_factor, 0.1 * std::log(4.0) + 1.0);
  EXPECT_EQ(load(yarn.set("model.rope.scaling", "attention_factor", "1.5"))
                .config.model.rope.scaling->attention_factor,
            1.5);
}

struct Contradiction {
  ConfigText text;
  std::string message;
};

TEST(Contradictions, OfTheModelAreRefused) {
  const auto llama = [] { return ConfigText().llama(); };
  const std::string scaling = "model.rope.scaling";
  const auto linear = [&] {
    return llama().set(scaling, "type", "\"linear\"").set(scaling, "factor", "2.0");
  };
  const auto llama3 = [&] {
    return linear().set(scaling, "type", "\"llama3\"").set(scaling, "original_max_position_embeddings", "8");
  };
  const std::vector<Contradiction> cases = {
      {ConfigText().set("model", "num_attention_heads", "5"),
       "run.toml:6:15: model.hidden_size = 64 does not divide by model.num_attention_heads = 5 (nearest that "
       "work: "
       "hidden_size 60 or 65, num_attention_heads 4 or 8; or set head_dim)"},
      {ConfigText().set("model", "num_key_value_heads", "3"),
       "model.num_attention_heads = 4 does not divide by model.num_key_value_heads = 3 (nearest that work: "
       "num_key_value_heads 2 or 4)"},
      {ConfigText().set("model", "max_position_embeddings", "32"),
       "run.toml:13:14: train.seq_length = 33 is more than the 32 rows of the learned positions"},
      {llama().set("model", "head_dim", "7"), "it must be even"},
      {llama().set("model.rope", "partial_rotary_factor", "0.3"), "is 4.8: pairs of dimensions rotate"},
      {ConfigText().set(scaling, "type", "\"linear\"").set(scaling, "factor", "2.0"),
       "[model.rope.scaling] needs model.position = \"rope\""},
      {linear().set(scaling, "beta_fast", "16.0"), "beta_fast has no meaning for type = \"linear\""},
      {linear().set(scaling, "original_max_position_embeddings", "8"),
       "original_max_position_embeddings has no meaning for type = \"linear\""},
      {llama3().set(scaling, "low_freq_factor", "4.0"), "low_freq_factor = 4 must be below"},
      {llama3().set(scaling, "attention_factor", "2.0"),
       "attention_factor has no meaning for type = \"llama3\""},
      {linear().remove(scaling, "factor"), "[model.rope.scaling] lacks factor"},
      {ConfigText().set("model", "num_attention_heads", "65536").set("model", "head_dim", "65536"),
       "is more than"},
      {ConfigText().set("model", "vocab_size", "256"),
       "too small for the tokenizer \"bytes\": it has 257 ids"},
  };
  for (const Contradiction& c : cases) EXPECT_TRUE(contains(error_of(c.text), c.message));
  EXPECT_EQ(error_of(llama3()), "no error");
  EXPECT_EQ(error_of(llama().set("model.rope", "partial_rotary_factor", "0.25")), "no error");
  EXPECT_EQ(error_of(ConfigText().set("model", "num_attention_heads", "5").set("model", "head_dim", "12")),
            "no error");
  EXPECT_EQ(
      error_of(ConfigText().set("model", "vocab_size", "7").set("data.sources", "format", "\"tokens\"")),
      "no error");
}

TEST(Contradictions, OfTheRunAreRefused) {
  const auto wsd = [] { return ConfigText().set("lr_schedule", "type", "\"wsd\""); };
  const std::string recompute = "activation_checkpointing";
  const std::vector<Contradiction> cases = {
      {ConfigText().remove("train", "steps"), "run.toml:9:2: [train] lacks steps (or samples, or tokens)"},
      {ConfigText().set("train", "samples", "7"),
       "run.toml:14:11: steps, samples and tokens of [train] say one thing"},
      {ConfigText().set("train", "tokens", "7"), "run.toml:14:10: steps, samples and tokens"},
      {ConfigText().remove("train", "micro_batch_size"),
       "needs two of micro_batch_size, global_batch_size and"},
      {ConfigText().set("train", "gradient_accumulation_steps", "3").set("parallel", "dp", "1"),
       "run.toml:14:31: train.micro_batch_size = 2, global_batch_size = 7 and gradient_accumulation_steps = "
       "3 "
       "contradict each other at dp = 1 (leave one out, or set gradient_accumulation_steps = 4 or "
       "global_batch_size "
       "= 6)"},
      {ConfigText().set("parallel", "dp", "0"),
       "parallel.dp must be at least 1, or -1 for the rest, and is 0"},
      {ConfigText().set("parallel", "dp", "1048576").set("parallel", "tp", "4"),
       "is more than 1048576 ranks"},
      {ConfigText().set("parallel", "tp", "3"),
       "model.num_attention_heads = 4 does not divide by parallel.tp = 3 (nearest that work: "
       "num_attention_heads 3 "
       "or 6, tp 2 or 4)"},
      {ConfigText().set("parallel", "pp", "4"),
       "is more than model.num_hidden_layers = 3 (nearest that works: pp 3)"},
      {ConfigText().set("parallel", "pp", "2").set("parallel", "schedule", "\"zb_v\""),
       "parallel.pp = 2 times 2 stages a rank is more than model.num_hidden_layers = 3 (nearest that works: "
       "pp 1)"},
      {ConfigText().set("parallel", "virtual_stages", "2"),
       "parallel.virtual_stages = 2 needs parallel.schedule = \"interleaved\", and it is \"1f1b\""},
      {ConfigText().set("parallel", "dp", "4").set("parallel", "zero_shard_size", "3"),
       "= 4 does not divide by parallel.zero_shard_size = 3 (nearest that work: zero_shard_size 2 or 4)"},
      {ConfigText().set("optimizer", "momentum", "0.9"), "optimizer.momentum = 0.9 is of sgd"},
      {ConfigText().set("lr_schedule", "min_lr", "1.0"), "min_lr = 1 is more than optimizer.lr = 0.001"},
      {wsd(), "[lr_schedule] lacks wsd_decay_steps"},
      {wsd().set("lr_schedule", "wsd_decay_steps", "21").set("parallel", "dp", "1"),
       "do not fit in decay_steps = 20"},
      {ConfigText()
           .set("lr_schedule", "warmup_steps", "9")
           .set("lr_schedule", "decay_steps", "8")
           .set("parallel", "dp", "1"),
       "warmup_steps = 9 is more than lr_schedule.decay_steps = 8"},
      {ConfigText().set("precision.loss_scale", "initial", "1000.0"), "must be a power of two"},
      {ConfigText().set("precision.loss_scale", "min", "131072.0"),
       "is more than precision.loss_scale.initial"},
      {ConfigText().set(recompute, "mode", "\"budget\""), "lacks memory_budget_gb"},
      {ConfigText().set(recompute, "memory_budget_gb", "1.0"),
       "needs activation_checkpointing.mode = \"budget\""},
      {ConfigText().set(recompute, "mode", "\"selective\"").set(recompute, "modules", "[]"),
       "would recompute nothing"},
      {ConfigText().set(recompute, "mode", "\"full\"").set(recompute, "num_layers", "4"),
       "num_layers = 4 is more than"},
      {ConfigText().set("data", "split", "[0.0, 1.0]"), "leaves nothing for training"},
      {ConfigText().set("train", "eval_interval", "5"), "keeps nothing for it"},
      {ConfigText().set("tokenizer", "path", "\"x\""), "the tokenizer \"bytes\" has no file"},
      {ConfigText().set("tokenizer", "pattern", "\"gpt2\""), "tokenizer.pattern: the tokenizer \"bytes\""},
      {ConfigText().set("tokenizer", "end_of_document", "\"x\""), "tokenizer.end_of_document: the tokenizer"},
      {ConfigText().set("tokenizer", "type", "\"bpe\""), "\"bpe\" needs tokenizer.path"},
      {ConfigText().set("checkpoint", "interval", "3").set("checkpoint", "keep_every", "7"),
       "is no multiple of"},
      {ConfigText().set("checkpoint", "interval", "0").set("checkpoint", "keep_every", "7"),
       "is no multiple of"},
      {ConfigText().set("data.stages", "weights", "[1.0]"), "[[data.stages]] lacks start (or start_tokens)"},
      {ConfigText().set("data.stages", "start", "1").set("data.stages", "start_tokens", "1"),
       "say one thing in two ways"},
      {ConfigText().set("data.stages", "start", "1").set("data.stages", "weights", "[1, 2]"),
       "data.stages[0].weights has 2 numbers for 1 sources"},
      {ConfigText().set("data.stages", "start", "1").set("data.stages", "weights", "[0]"),
       "at least one must be above 0"},
      {ConfigText().set("data.stages", "start", "1").set("data.stages", "seq_length", "4000"),
       "data.stages[0].seq_length = 4000 is more than train.seq_length"},
      {ConfigText().set("debug", "dump_steps", "[1, 1]"), "debug.dump_steps names step 1 twice"},
  };
  for (const Contradiction& c : cases) EXPECT_TRUE(contains(error_of(c.text), c.message));
  const std::string two = ConfigText().text() + "[[data.sources]]\npath = \"other/corpus.bin\"\n";
  EXPECT_TRUE(contains(error_of(two), "two sources have the name \"corpus\""));
}

TEST(Contradictions, ThatTheNumberOfRanksMayLiftWaitForIt) {
  const ConfigText text = ConfigText().set("train", "gradient_accumulation_steps", "2");
  EXPECT_EQ(error_of(text), "no error");  // dp = -1: two ranks make it right
}

// Starts in tokens become steps once the batch is known, and must come one after the other then.
TEST(Stages, StartByStepsOrTokens) {
  const std::string base = ConfigText()
                               .set("train", "micro_batch_size", "3")
                               .set("train", "global_batch_size", "3")
                               .set("train", "seq_length", "16")
                               .set("parallel", "dp", "1")
                               .text();
  const auto with = [&](const std::string& stages) { return base + stages; };
  const std::string first = "[[data.stages]]\nstart = 2\nweights = [3]\n";
  RunConfig config = load_text(with(first + "[[data.stages]]\nstart_tokens = 145\nseq_length = 5\n")).config;
  resolve_parallel(config, 1);
  ASSERT_EQ(config.data.stages.size(), 2u);
  EXPECT_EQ(config.data.stages[0].start, 2);
  EXPECT_EQ(config.data.stages[0].weights, std::vector<double>{3});
  EXPECT_EQ(config.data.stages[1].start, 4);  // 48 tokens a step: 144 after three
  EXPECT_FALSE(config.data.stages[1].start_tokens);
  EXPECT_EQ(config.data.stages[1].seq_length, 5);
  const std::string error = error_of(with(first + "[[data.stages]]\nstart_tokens = 96\n"));
  EXPECT_TRUE(contains(error, "data.stages[1] begins after step 2, and the stage before it after step 2"));
  EXPECT_TRUE(contains(error, "run.toml:"));
}

TEST(Notes, NameKeysWithoutEffect) {
  const auto notes = [](const ConfigText& text) { return load(text).notes; };
  EXPECT_TRUE(notes(ConfigText()).empty());
  const auto one =
      notes(ConfigText().set("optimizer", "type", "\"sgd\"").set("optimizer", "betas", "[0.5, 0.5]"));
  ASSERT_EQ(one.size(), 1u);
  EXPECT_EQ(one[0], "run.toml:17:9: optimizer.betas = [0.5, 0.5] has no effect: optimizer.type is \"sgd\"");
  EXPECT_EQ(notes(ConfigText().set("model.rope", "theta", "500000.0")).size(), 1u);
  EXPECT_EQ(notes(ConfigText().set("lr_schedule", "wsd_decay_steps", "5")).size(), 1u);
  EXPECT_EQ(notes(ConfigText().set("activation_checkpointing", "num_layers", "2")).size(), 1u);
  ConfigText offload;
  offload.set("activation_checkpointing", "offload_dir", "\"/fast\"");
  EXPECT_EQ(notes(offload).size(), 1u);
  EXPECT_EQ(notes(offload.set("activation_checkpointing", "offload", "true")).size(), 0u);
  ConfigText waits = ConfigText().set("checkpoint", "memory_budget_gb", "1.0");
  EXPECT_TRUE(notes(waits).empty());
  EXPECT_EQ(notes(waits.set("checkpoint", "async", "false")).size(), 1u);
  EXPECT_EQ(notes(ConfigText().set("precision.loss_scale", "initial", "1024.0")).size(), 1u);
  EXPECT_EQ(notes(ConfigText()
                      .set("precision", "compute", "\"fp16\"")
                      .set("precision.loss_scale", "type", "\"none\""))
                .size(),
            1u);
}

TEST(Notes, NameChoicesOfAnAxisOfOneRank) {
  const auto notes = [](const char* key, const char* value) {
    return load(ConfigText().set("parallel", "dp", "1").set("parallel", key, value)).notes;
  };
  EXPECT_TRUE(notes("pp", "1").empty());
  for (const auto& [key, value] : {std::pair{"schedule", "\"zb_h1\""},
                                   {"sp_mode", "\"ulysses\""},
                                   {"zero_stage", "3"},
                                   {"zero_shard_size", "1"},
                                   {"zero_reduce", "\"step\""},
                                   {"live_activations", "4"}}) {
    const auto given = notes(key, value);
    ASSERT_EQ(given.size(), 1u) << key;
    EXPECT_TRUE(contains(given[0], std::string("parallel.") + key + " = " + value + " has no effect: "))
        << given[0];
  }
  EXPECT_TRUE(notes("schedule", "\"gpipe\"").empty());  // it recomputes stages
  const ConfigText kept = ConfigText().set("comm", "regather_inputs", "false");
  EXPECT_EQ(load(kept).notes.size(), 1u);
}

TEST(ScheduleFile, IsReadFromTheFolderOfTheConfigThatNamesIt) {
  const test::ScratchFolder folder;
  std::ofstream(folder / "order.txt") << "0F0 0B0\n";
  const auto text = [](const char* path) {
    return ConfigText().set("parallel", "schedule", fmt::format("\"{}\"", path)).text();
  };
  const auto read = [&](const char* path, bool saved) {
    return parse_config(text(path), {.file = folder / "run.toml", .overrides = {}, .saved = saved})
        .config.parallel;
  };
  const ParallelSection parallel = read("order.txt", false);
  EXPECT_EQ(parallel.schedule, (folder / "order.txt").string());
  EXPECT_EQ(parallel.schedule_text, "0F0 0B0\n");
  EXPECT_EQ(read("./gone.txt", true).schedule_text, "");
  std::ofstream(folder / "empty.txt").flush();
  for (const auto& [path, problem] :
       {std::pair{"./gone.txt", ": no such file"}, {"empty.txt", ": it is empty"}})
    try {
      read(path, false);
      FAIL() << path;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::Usage);
      EXPECT_TRUE(contains(error.what(), "run.toml:19:12: parallel.schedule "));
      EXPECT_TRUE(contains(error.what(), problem));
    }
  EXPECT_TRUE(
      contains(error_of(text("zb_h3")),
               "or \"auto\" or the path of a file, and is the string \"zb_h3\" (did you mean 'zb_h1'?)"));
}

TEST(Unsupported, IsRefusedByName) {
  const std::map<std::string, std::string> values = {
      {"run.device", "\"cuda\""},
      {"parallel.tp", "2"},
      {"parallel.pp", "3"},
      {"parallel.sp", "2"},
      {"parallel.ep", "2"},
      {"parallel.etp", "2"},
      {"parallel.sp_mode", "\"ulysses\""},
      {"parallel.sequence_parallel", "true"},
      {"parallel.zero_stage", "3"},
      {"parallel.virtual_stages", "2"},
      {"comm.overlap_param_gather", "false"},
      {"comm.regather_inputs", "false"},
      {"comm.backend", "\"mpi\""},
      {"activation_checkpointing.mode", "\"stage\""},
  };
  for (const auto& feature : config::unsupported_features()) {
    ASSERT_TRUE(values.contains(feature.key)) << feature.key << " has no test";
    const size_t dot = feature.key.rfind('.');
    const std::string error = error_of(
        ConfigText().set(feature.key.substr(0, dot), feature.key.substr(dot + 1), values.at(feature.key)));
    EXPECT_TRUE(contains(error, ": " + feature.key + " = " + values.at(feature.key) + ": "));
    EXPECT_TRUE(contains(error, feature.what + " is not built yet"));
  }
}

}  // namespace
}  // namespace tessera::config_test
