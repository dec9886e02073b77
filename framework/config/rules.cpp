// SPDX-License-Identifier: Apache-2.0
#include "framework/config/rules.h"

#include <fmt/format.h>

#include <algorithm>

#include "framework/config/arithmetic.h"
#include "framework/config/resolve.h"
#include "framework/config/writer.h"

namespace tessera::config {
namespace {

class RuleCheck {
 public:
  RuleCheck(const RunConfig& config, const Given& given, std::vector<std::string>& notes)
      : c_(config), given_(given), notes_(notes) {}

  void model() const;
  void rope() const;
  void scaling() const;
  void batch() const;
  void amounts() const;
  void optimizer() const;
  void schedule() const;
  void precision() const;
  void recompute() const;
  void data() const;
  void stages() const;
  void output() const;
  void axes() const;

 private:
  template <class... Args>
  void require(bool holds, const std::string& key, fmt::format_string<Args...> format, Args&&... args) const {
    if (!holds) fail_at(given_.at(key), "{}", fmt::format(format, std::forward<Args>(args)...));
  }

  void no_effect(const std::string& key, std::string_view reason) const {
    notes_.push_back(fmt::format("{}: {} = {} has no effect: {}", given_.at(key).text(), key,
                                 value_text(c_, key), reason));
  }

  // A value that is not the default and that nothing reads.
  void note_unless_default(const std::string& key, std::string_view reason) const {
    if (value_text(c_, key) != value_text(RunConfig{}, key)) no_effect(key, reason);
  }

  void require_known(const Problem& problem) const {
    if (!problem.text.empty()) fail_at(given_.at(problem.key), "{}", problem.text);
  }

  const RunConfig& c_;
  const Given& given_;
  std::vector<std::string>& notes_;
};

void RuleCheck::model() const {
  const ModelSection& m = c_.model;
  require(
      m.num_attention_heads % m.num_key_value_heads == 0, "model.num_key_value_heads",
      "model.num_attention_heads = {} does not divide by model.num_key_value_heads = {} (nearest that work: "
      "num_key_value_heads {})",
      m.num_attention_heads, m.num_key_value_heads,
      nearest_divisors(m.num_attention_heads, m.num_key_value_heads));
  const bool learned = m.position == ModelSection::Position::Learned;
  require(!learned || c_.train.seq_length <= m.max_position_embeddings, "train.seq_length",
          "train.seq_length = {} is more than the {} rows of the learned positions "
          "(model.max_position_embeddings)",
          c_.train.seq_length, m.max_position_embeddings);
  // Inner sizes are multiplied with each other and with hidden_size all over.
  const auto width = product({m.num_attention_heads, m.head_dim});
  require(width && *width <= (int64_t{1} << 24), "model.head_dim",
          "model.num_attention_heads * model.head_dim = {} * {} is more than {}", m.num_attention_heads,
          m.head_dim, int64_t{1} << 24);
  rope();
}

void RuleCheck::rope() const {
  const ModelSection& m = c_.model;
  if (m.position != ModelSection::Position::Rope) {
    note_unless_default("model.rope.theta", "model.position is not \"rope\"");
    note_unless_default("model.rope.partial_rotary_factor", "model.position is not \"rope\"");
    require(!m.rope.scaling, "model.rope.scaling", "[model.rope.scaling] needs model.position = \"rope\"");
    return;
  }
  const double rotating = static_cast<double>(m.head_dim) * m.rope.partial_rotary_factor;
  const auto dims = static_cast<int64_t>(rotating);
  require(
      dims >= 2 && dims % 2 == 0 && static_cast<double>(dims) == rotating,
      given_.has("model.rope.partial_rotary_factor") ? "model.rope.partial_rotary_factor" : "model.head_dim",
      "model.head_dim = {} times model.rope.partial_rotary_factor = {} is {}: pairs of dimensions rotate, so "
      "it must be even",
      m.head_dim, m.rope.partial_rotary_factor, rotating);
  if (m.rope.scaling) scaling();
}

void RuleCheck::scaling() const {
  using Type = RopeScaling::Type;
  const RopeScaling& s = *c_.model.rope.scaling;
  const std::string path = "model.rope.scaling.";
  const auto only = [&](const char* key, bool used) {
    if (used || !given_.has(path + key)) return;
    // A printed config holds every key; one that stands at its default says nothing.
    RunConfig plain;
    plain.model.rope.scaling.emplace();
    if (value_text(c_, path + key) != value_text(plain, path + key))
      fail_at(given_.at(path + key), "{}{} has no meaning for type = {}", path, key,
              value_text(c_, path + "type"));
  };
  only("low_freq_factor", s.type == Type::Llama3);
  only("high_freq_factor", s.type == Type::Llama3);
  only("beta_fast", s.type == Type::Yarn);
  only("beta_slow", s.type == Type::Yarn);
  only("attention_factor", s.type == Type::Yarn);
  only("original_max_position_embeddings", s.type != Type::Linear);
  require(s.type == Type::Linear || s.original_max_position_embeddings > 0, path + "type",
          "[model.rope.scaling] lacks original_max_position_embeddings, which {} needs",
          value_text(c_, path + "type"));
  require(s.type != Type::Llama3 || s.low_freq_factor < s.high_freq_factor, path + "low_freq_factor",
          "{0}low_freq_factor = {1} must be below {0}high_freq_factor = {2}", path, s.low_freq_factor,
          s.high_freq_factor);
  require(s.type != Type::Yarn || s.beta_slow < s.beta_fast, path + "beta_slow",
          "{0}beta_slow = {1} must be below {0}beta_fast = {2}", path, s.beta_slow, s.beta_fast);
}

void RuleCheck::batch() const {
  const TrainSection& t = c_.train;
  const int given =
      (t.micro_batch_size > 0) + (t.global_batch_size > 0) + (t.gradient_accumulation_steps > 0);
  require(
      given >= 2, "train",
      "[train] needs two of micro_batch_size, global_batch_size and gradient_accumulation_steps, and has {}",
      given);
  const int lengths = (t.steps > 0) + (t.samples ? 1 : 0) + (t.tokens ? 1 : 0);
  require(lengths > 0, "train", "[train] lacks steps (or samples, or tokens)");
  const char* last = t.tokens ? "train.tokens" : "train.samples";
  require(lengths == 1, last, "steps, samples and tokens of [train] say one thing in three ways: give one");
}

void RuleCheck::amounts() const {
  require(c_.parallel.dp != 0, "parallel.dp", "parallel.dp must be at least 1, or -1 for the rest, and is 0");
  const auto ranks =
      product({c_.parallel.tp, c_.parallel.sp, c_.parallel.pp, std::max<int64_t>(1, c_.parallel.dp)});
  constexpr int64_t kMostRanks = int64_t{1} << 20;
  require(ranks && *ranks <= kMostRanks, "parallel", "tp * sp * dp * pp of [parallel] is more than {} ranks",
          kMostRanks);
  require_known(check_mesh(c_));
  if (c_.parallel.dp < 1) return;  // the number of ranks decides
  RunConfig resolved = c_;
  require_known(resolve_amounts(resolved, c_.parallel.dp));
}

// Choices of an axis that has one rank.
void RuleCheck::axes() const {
  const ParallelSection& p = c_.parallel;
  if (p.pp == 1) {
    // gpipe recomputes stages unless told otherwise, on one rank too.
    if (p.schedule != "gpipe" && p.schedule_text.empty())
      note_unless_default("parallel.schedule", "parallel.pp is 1");
    note_unless_default("parallel.virtual_stages", "parallel.pp is 1");
  }
  if (p.live_activations && p.schedule != "auto")
    no_effect("parallel.live_activations", "parallel.schedule is not \"auto\"");
  if (p.sp == 1) note_unless_default("parallel.sp_mode", "parallel.sp is 1");
  if (p.zero_stage > 0 && p.dp == 1 && p.sp == 1)
    no_effect("parallel.zero_stage", "parallel.dp and sp are 1, and there is nobody to divide state with");
  if (p.zero_stage == 0 && p.zero_shard_size)
    no_effect("parallel.zero_shard_size", "parallel.zero_stage is 0");
  if (p.zero_stage < 2) note_unless_default("parallel.zero_reduce", "parallel.zero_stage is below 2");
  if (!p.sequence_parallel)
    note_unless_default("comm.regather_inputs", "parallel.sequence_parallel is false");
}

void RuleCheck::optimizer() const {
  const OptimizerSection& o = c_.optimizer;
  if (o.type == OptimizerSection::Type::AdamW) {
    require(o.momentum == 0.0, "optimizer.momentum",
            "optimizer.momentum = {} is of sgd; adamw has optimizer.betas (set momentum = 0)", o.momentum);
  } else {
    note_unless_default("optimizer.betas", "optimizer.type is \"sgd\"");
    note_unless_default("optimizer.eps", "optimizer.type is \"sgd\"");
  }
}

void RuleCheck::schedule() const {
  using Type = LrScheduleSection::Type;
  const LrScheduleSection& s = c_.lr_schedule;
  require(s.min_lr <= c_.optimizer.lr, "lr_schedule.min_lr",
          "lr_schedule.min_lr = {} is more than optimizer.lr = {}", s.min_lr, c_.optimizer.lr);
  if (s.type == Type::Constant) note_unless_default("lr_schedule.min_lr", "the schedule is constant");
  const bool wsd = s.type == Type::Wsd;
  require(!wsd || s.wsd_decay_steps, "lr_schedule.type",
          "[lr_schedule] lacks wsd_decay_steps, which \"wsd\" needs");
  if (!wsd && s.wsd_decay_steps) no_effect("lr_schedule.wsd_decay_steps", "the type is not \"wsd\"");
}

void RuleCheck::precision() const {
  const LossScale& scale = c_.precision.loss_scale;
  const std::string path = "precision.loss_scale.";
  require(is_power_of_two(scale.initial), path + "initial",
          "{}initial = {} must be a power of two, so that it "
          "changes no digit",
          path, scale.initial);
  require(is_power_of_two(scale.min), path + "min", "{}min = {} must be a power of two", path, scale.min);
  require(scale.min <= scale.initial, path + "min", "{0}min = {1} is more than {0}initial = {2}", path,
          scale.min, scale.initial);
  if (scale.type == LossScale::Type::None)
    note_unless_default(path + "initial", "loss_scale.type is \"none\"");
  if (scale.type == LossScale::Type::None && c_.precision.compute == FloatType::Fp16)
    notes_.push_back(given_.at(path + "type").text() + ": fp16 without a loss scale loses small gradients");
}

void RuleCheck::recompute() const {
  using Mode = ActivationCheckpointingSection::Mode;
  const ActivationCheckpointingSection& a = c_.activation_checkpointing;
  const std::string path = "activation_checkpointing.";
  require(a.mode != Mode::Budget || a.memory_budget_gb, path + "mode",
          "[activation_checkpointing] lacks memory_budget_gb, which \"budget\" needs");
  require(a.mode == Mode::Budget || !a.memory_budget_gb, path + "memory_budget_gb",
          "{0}memory_budget_gb needs {0}mode = \"budget\", and it is {1}", path,
          value_text(c_, path + "mode"));
  require(a.mode != Mode::Selective || !a.modules.empty(), path + "modules",
          "{}modules is empty: \"selective\" would recompute nothing (did you mean mode = \"none\"?)", path);
  if (!a.offload && !a.offload_dir.empty() && c_.parallel.schedule_text.empty())
    no_effect(path + "offload_dir", path + "offload is false");
  if (!a.num_layers) return;
  require(*a.num_layers <= c_.model.num_hidden_layers, path + "num_layers",
          "{}num_layers = {} is more than model.num_hidden_layers = {}", path, *a.num_layers,
          c_.model.num_hidden_layers);
  if (a.mode != Mode::Full && a.mode != Mode::Selective)
    no_effect(path + "num_layers", "the mode is neither \"full\" nor \"selective\"");
}

void RuleCheck::data() const {
  const DataSection& d = c_.data;
  require(!d.sources.empty(), "data", "no data: [[data.sources]] is missing");
  for (size_t i = 0; i < d.sources.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      require(
          d.sources[i].name != d.sources[j].name, fmt::format("data.sources[{}].name", i),
          "two sources have the name {}: their places in a resumed run would be mixed up (give one a name)",
          toml_string(d.sources[i].name));
  require(d.split[0] > 0.0, "data.split", "data.split = {} leaves nothing for training",
          value_text(c_, "data.split"));
  require(c_.train.eval_interval == 0 || d.split[1] > 0.0, "train.eval_interval",
          "train.eval_interval = {} evaluates, and data.split = {} keeps nothing for it (say, split = [0.95, "
          "0.05])",
          c_.train.eval_interval, value_text(c_, "data.split"));

  const bool bytes = c_.tokenizer.type == TokenizerSection::Type::Bytes;
  require(!bytes || c_.tokenizer.path.empty(), "tokenizer.path",
          "tokenizer.path: the tokenizer \"bytes\" has no file");
  require(bytes || !c_.tokenizer.path.empty(), "tokenizer.type",
          "tokenizer.type = \"bpe\" needs tokenizer.path, the file of the tokenizer");
  require(!bytes || c_.tokenizer.end_of_document.empty(), "tokenizer.end_of_document",
          "tokenizer.end_of_document: the tokenizer \"bytes\" has one, 256");
  require(!bytes || c_.tokenizer.pattern.empty(), "tokenizer.pattern",
          "tokenizer.pattern: the tokenizer \"bytes\" has none");
  const bool reads_text = std::any_of(d.sources.begin(), d.sources.end(), [](const DataSource& source) {
    return source.format != DataSource::Format::TokenFile;
  });
  constexpr int64_t kByteTokens = 257;  // 256 bytes and the end of a document
  require(!bytes || !reads_text || c_.model.vocab_size >= kByteTokens, "model.vocab_size",
          "model.vocab_size = {} is too small for the tokenizer \"bytes\": it has {} ids",
          c_.model.vocab_size, kByteTokens);
}

void RuleCheck::stages() const {
  const DataSection& d = c_.data;
  for (size_t i = 0; i < d.stages.size(); ++i) {
    const DataStage& stage = d.stages[i];
    const std::string path = fmt::format("data.stages[{}]", i);
    require(stage.start || stage.start_tokens, path, "[[data.stages]] lacks start (or start_tokens)");
    require(!stage.start || !stage.start_tokens, path + ".start_tokens",
            "start and start_tokens of [[data.stages]] say one thing in two ways: give one");
    require(stage.weights.empty() || stage.weights.size() == d.sources.size(), path + ".weights",
            "{}.weights has {} numbers for {} sources", path, stage.weights.size(), d.sources.size());
    require(stage.weights.empty() || std::any_of(stage.weights.begin(), stage.weights.end(),
                                                 [](double weight) { return weight > 0; }),
            path + ".weights", "{}.weights leaves nothing to read: at least one must be above 0", path);
    require(stage.seq_length.value_or(1) <= c_.train.seq_length, path + ".seq_length",
            "{}.seq_length = {} is more than train.seq_length = {}, the length of the rows (nearest that "
            "works: {})",
            path, stage.seq_length.value_or(1), c_.train.seq_length, c_.train.seq_length);
    if (stage.start && c_.train.steps > 0 && *stage.start >= c_.train.steps)
      no_effect(path + ".start", "the run ends before it");
  }
}

void RuleCheck::output() const {
  const CheckpointSection& k = c_.checkpoint;
  require(k.keep_every == 0 || (k.interval > 0 && k.keep_every % k.interval == 0), "checkpoint.keep_every",
          "checkpoint.keep_every = {} is no multiple of checkpoint.interval = {}: no checkpoint would be "
          "kept for it",
          k.keep_every, k.interval);
  if (k.memory_budget_gb && !k.async) no_effect("checkpoint.memory_budget_gb", "checkpoint.async is false");
  const auto named_once = [&](const char* key, const std::vector<int64_t>& steps) {
    for (const int64_t step : steps)
      require(std::count(steps.begin(), steps.end(), step) == 1, key, "{} names step {} twice", key, step);
  };
  named_once("debug.dump_steps", c_.debug.dump_steps);
  named_once("logging.trace", c_.logging.trace);
}

}  // namespace

void check_rules(const RunConfig& config, const Given& given, std::vector<std::string>& notes) {
  const RuleCheck check(config, given, notes);
  check.model();
  check.batch();
  check.stages();
  check.optimizer();
  check.schedule();
  check.amounts();
  check.axes();
  check.precision();
  check.recompute();
  check.data();
  check.output();
}

}  // namespace tessera::config
