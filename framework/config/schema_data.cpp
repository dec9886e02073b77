// SPDX-License-Identifier: Apache-2.0
#include "framework/config/schema_sections.h"
#include "framework/config/section_builder.h"

namespace tessera::config {
namespace {

Section checkpoint_section() {
  using Checkpoint = CheckpointSection;
  SectionBuilder<Checkpoint> checkpoint("checkpoint", "What is saved, when, and for how long.",
                                        [](RunConfig& c, size_t) -> Checkpoint& { return c.checkpoint; });
  checkpoint
      .key("dir", &Checkpoint::dir,
           {.presence = Presence::Derived,
            .text = Text::OutputPath,
            .default_text = "checkpoints in run.output_dir",
            .aliases = {"save", "save_dir"},
            .help = "Folder of the checkpoints; relative to the current folder."})
      .key("interval", &Checkpoint::interval,
           {.integers = {0, kMostSteps},
            .unit = "steps",
            .aliases = {"save_interval", "save_steps"},
            .help = "Steps between checkpoints; 0: only at the end and on a signal."})
      .key("keep_last", &Checkpoint::keep_last,
           {.integers = {1, 1'000'000},
            .unit = "checkpoints",
            .aliases = {"save_total_limit"},
            .help = "How many of the newest stay."})
      .key("keep_every", &Checkpoint::keep_every,
           {.integers = {0, kMostSteps},
            .unit = "steps",
            .help = "Checkpoints at multiples of this stay for good; a multiple of interval; 0: none."})
      .key("async", &Checkpoint::async, {.help = "Write while training goes on."})
      .key("verify", &Checkpoint::verify,
           {.help = "Hash each piece while it is written and read it back before publishing."})
      .key("max_files", &Checkpoint::max_files,
           {.integers = {1, 1'000'000}, .unit = "files", .help = "Most part files of one checkpoint."})
      .key("shared_fs", &Checkpoint::shared_fs,
           {.help =
                "Whether all ranks see one file system; false: each node keeps the parts of its own ranks."})
      .key("memory_budget_gb", &Checkpoint::memory_budget_gb,
           {.presence = Presence::Optional,
            .reals = {.min = 0, .max = 1e6, .above_min = true},
            .unit = "2^30 bytes",
            .default_text = "absent: no limit",
            .help = "async: what one rank may copy to write while training goes on; when that is not "
                    "enough on some rank, training waits for the writing."});
  return checkpoint.build();
}

Section stages_section() {
  SectionBuilder<DataStage> stage("data.stages",
                                  "A part of the run with weights or a context length of its own, which ends "
                                  "where the next one begins.",
                                  [](RunConfig& c, size_t i) -> DataStage& { return c.data.stages[i]; });
  stage
      .elements(
          Section::Kind::List, [](RunConfig& c) { return c.data.stages.size(); },
          [](RunConfig& c) { c.data.stages.emplace_back(); })
      .key(
          "start", &DataStage::start,
          {.presence = Presence::Optional,
           .integers = {0, kMostSteps},
           .unit = "steps",
           .default_text = "from start_tokens",
           .help = "Steps that are done before the stage begins; each stage begins after the one before it."})
      .key("start_tokens", &DataStage::start_tokens,
           {.presence = Presence::Optional,
            .integers = {0, kMostTokens},
            .unit = "tokens",
            .default_text = "from start",
            .help =
                "The same in tokens, train.seq_length for each sample: the stage begins with the first step "
                "before which so many were given out."})
      .key("weights", &DataStage::weights,
           {.reals = {.min = 0, .max = 1e9},
            .help = "Weight of each source in the stage, in the order of the sources; 0: none of it; []: "
                    "their own "
                    "weights."})
      .key(
          "seq_length", &DataStage::seq_length,
          {.presence = Presence::Optional,
           .integers = {1, kLongestSequence},
           .unit = "tokens",
           .default_text = "train.seq_length",
           .help = "Contexts of the stage: rows stay train.seq_length long and are cut into contexts of this "
                   "length, which do not see each other."});
  return stage.build();
}

}  // namespace

void add_data_sections(std::vector<Section>& sections) {
  using TokenizerType = TokenizerSection::Type;
  SectionBuilder<TokenizerSection> tokenizer(
      "tokenizer", "How text becomes tokens.",
      [](RunConfig& c, size_t) -> TokenizerSection& { return c.tokenizer; });
  tokenizer
      .choice(
          "type", &TokenizerSection::type, {{"bytes", TokenizerType::Bytes}, {"bpe", TokenizerType::Bpe}},
          {.help = "bytes: ids 0 to 255 are bytes and 256 ends a document. bpe: byte pairs, as a file says."})
      .key("path", &TokenizerSection::path,
           {.presence = Presence::Derived,
            .text = Text::InputPath,
            .default_text = "bpe: required; bytes: not used",
            .help = "A tokenizer.json, a file of ranks, or a folder that holds one; relative to this file."})
      .key("end_of_document", &TokenizerSection::end_of_document,
           {.presence = Presence::Derived,
            .default_text = "as the tokenizer's files say",
            .help = "The control token that ends a document of bpe, where neither tokenizer_config.json "
                    "beside the "
                    "file nor the usual names tell."})
      .key("pattern", &TokenizerSection::pattern,
           {.presence = Presence::Derived,
            .default_text = "by the number of ranks",
            .help = "How a file of ranks cuts words: gpt2, cl100k, llama3, qwen or o200k."});
  sections.push_back(tokenizer.build());

  using Packing = DataSection::Packing;
  SectionBuilder<DataSection> data("data", "What is read, and in which order.",
                                   [](RunConfig& c, size_t) -> DataSection& { return c.data; });
  data.key("split", &DataSection::split,
           {.reals = {.min = 0, .max = 1e6},
            .help = "Shares of each source for training and for evaluation, from its start."})
      .choice(
          "packing", &DataSection::packing, {{"cut", Packing::Cut}, {"first_fit", Packing::FirstFit}},
          {.help = "How documents fill samples: one stream that is cut, or whole documents side by side."})
      .key("document_mask", &DataSection::document_mask,
           {.aliases = {"reset_attention_mask"}, .help = "A token attends only to its own document."})
      .key("shuffle_seed", &DataSection::shuffle_seed,
           {.presence = Presence::Derived,
            .integers = {0, std::numeric_limits<int64_t>::max()},
            .default_text = "run.seed",
            .help = "Order of the samples."});
  sections.push_back(data.build());

  using Format = DataSource::Format;
  SectionBuilder<DataSource> source("data.sources", "One corpus; at least one is required.",
                                    [](RunConfig& c, size_t i) -> DataSource& { return c.data.sources[i]; });
  source
      .elements(
          Section::Kind::List, [](RunConfig& c) { return c.data.sources.size(); },
          [](RunConfig& c) { c.data.sources.emplace_back(); })
      .key("name", &DataSource::name,
           {.presence = Presence::Derived,
            .text = Text::Name,
            .default_text = "the file name of path without its extension",
            .help = "Name in metrics and checkpoints; no two sources share one."})
      .key("path", &DataSource::path,
           {.presence = Presence::Required,
            .text = Text::InputPath,
            .help = "Token files PATH.bin and PATH.idx, or plain text when the tokenizer is \"bytes\"; "
                    "relative to this file."})
      .key("weight", &DataSource::weight,
           {.reals = {.min = 0, .max = 1e9, .above_min = true},
            .help = "Share of the samples, beside the weights of the others."})
      .choice("format", &DataSource::format,
              {{"auto", Format::Auto}, {"tokens", Format::TokenFile}, {"text", Format::Text}},
              {.help = "auto: tokens when PATH.idx exists, else text."});
  sections.push_back(source.build());
  sections.push_back(stages_section());
}

void add_output_sections(std::vector<Section>& sections) {
  sections.push_back(checkpoint_section());
  sections.push_back(
      later_section("finetune", "Training of a part of a given model.", {"from", "freeze", "loss_mask"}));
  sections.push_back(
      later_section("finetune.lora", "Low-rank adapters.", {"r", "alpha", "dropout", "target_modules"}));

  SectionBuilder<LoggingSection> logging("logging", "What a run says while it trains.",
                                         [](RunConfig& c, size_t) -> LoggingSection& { return c.logging; });
  logging
      .key("interval", &LoggingSection::interval,
           {.integers = {1, kMostSteps},
            .unit = "steps",
            .aliases = {"log_interval", "logging_steps"},
            .help = "Steps between progress lines; metrics.jsonl has every step."})
      .key("tensorboard", &LoggingSection::tensorboard,
           {.help = "Write the numbers of metrics.jsonl and the config to tensorboard/events.out.tfevents.*, "
                    "which TensorBoard shows."})
      .key("per_tensor", &LoggingSection::per_tensor,
           {.integers = {0, kMostSteps},
            .unit = "steps",
            .help = "Steps between those whose single tensors are measured: norms of weights, gradients and "
                    "updates in metrics.jsonl and, with tensorboard, histograms; 0: never."})
      .key("trace", &LoggingSection::trace,
           {.integers = {1, kMostSteps},
            .help = "Steps, counted from 1, whose every action is written with its times to "
                    "trace/step_N.json (for Perfetto) and trace/step_N.svg (beside the plan)."});
  sections.push_back(logging.build());

  using Fault = FaultToleranceSection;
  using NanPolicy = Fault::NanPolicy;
  SectionBuilder<Fault> fault("fault_tolerance", "What a run does when something goes wrong.",
                              [](RunConfig& c, size_t) -> Fault& { return c.fault_tolerance; });
  fault
      .choice("nan_policy", &Fault::nan_policy, {{"stop", NanPolicy::Stop}, {"skip", NanPolicy::Skip}},
              {.help = "On a loss or gradient that is not finite: end with exit code 4, or skip the update."})
      .key("signals", &Fault::signals,
           {.allowed = {"TERM", "INT", "HUP", "USR1", "USR2"},
            .help = "Signals that save a checkpoint and end the run with exit code 75."})
      .later("spike", "What to do when the loss jumps.")
      .later("walltime_margin_s", "Time kept for the last checkpoint.");
  sections.push_back(fault.build());

  SectionBuilder<DebugSection> debug("debug", "Looking into a run.",
                                     [](RunConfig& c, size_t) -> DebugSection& { return c.debug; });
  debug
      .key("dump_steps", &DebugSection::dump_steps,
           {.integers = {1, kMostSteps},
            .help = "Steps, counted from 1, whose tensors are written to debug/step_N.h5."})
      .key("allow_large", &DebugSection::allow_large, {.help = "Dump more than 8 GB."})
      .key("check_replicas", &DebugSection::check_replicas,
           {.help = "After each step compare all copies of parameters and optimizer state, bit by bit."})
      .key("log_sample_ids", &DebugSection::log_sample_ids,
           {.help = "Write the ids of each step's samples to metrics.jsonl."})
      .key("poison", &DebugSection::poison, {.help = "Fill fresh memory with NaN."});
  sections.push_back(debug.build());
}

}  // namespace tessera::config
