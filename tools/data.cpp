// SPDX-License-Identifier: Apache-2.0
// `tessera data`: which documents a step of a run trained, and what its corpora hold.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "framework/base/check.h"
#include "framework/config/load.h"
#include "framework/config/resolve.h"
#include "framework/train/data_trace.h"
#include "tools/command_line.h"
#include "tools/commands.h"

namespace tessera::tools {
namespace {

namespace fs = std::filesystem;

struct DataArguments {
  std::string run;
  int64_t step = 0;  // 0: none
  bool sources = false, json = false;
};

constexpr const char* kDataExamples = R"(examples:
  tessera data runs/tiny --step 100             the documents of step 100, with their first words
  tessera data runs/tiny --step 100 --json
  tessera data runs/tiny --sources              documents, tokens and bytes of each corpus
  tessera data configs/gpt/tiny.toml --sources  the same before a run
A step's documents follow from the ledger in the run folder, data.jsonl, so nothing is looked up in a log.
exit codes: 0 found, 2 usage, or a step that the run has not, 3 ledger or data missing or changed)";

std::optional<int> read_arguments(std::span<const std::string> arguments, DataArguments& read) {
  CLI::App app{"Says which documents a step of a run trained, and what its corpora hold.", "tessera data"};
  app.footer(kDataExamples);
  app.add_option("run", read.run, "A run folder; with --sources also a run's TOML file")->required();
  auto* step = app.add_option("--step", read.step, "The step, counted from 1")->check(CLI::PositiveNumber);
  auto* sources = app.add_flag("--sources", read.sources, "Documents, tokens, bytes of each corpus");
  step->excludes(sources);
  app.add_flag("--json", read.json, "One JSON object on stdout");
  const auto answered = parse(app, arguments);
  if (answered) return answered;
  CHECK_AS(ExitCode::Usage, read.step > 0 || read.sources, "say what to show: --step N or --sources");
  return answered;
}

// Bytes that are no UTF-8 stand in corpora of bytes.
void print_data_json(const nlohmann::ordered_json& json) {
  fmt::print("{}\n", json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

nlohmann::ordered_json to_json(const StepTrace& trace) {
  nlohmann::ordered_json samples = nlohmann::ordered_json::array();
  for (const TracedSample& sample : trace.samples) {
    nlohmann::ordered_json parts = nlohmann::ordered_json::array();
    for (const TracedPart& part : sample.parts)
      parts.push_back(
          {{"document", part.document}, {"begin", part.begin}, {"end", part.end}, {"text", part.text}});
    samples.push_back({{"row", sample.row},
                       {"source", sample.source},
                       {"epoch", sample.epoch},
                       {"block", sample.block},
                       {"sample", sample.index},
                       {"documents", std::move(parts)}});
  }
  nlohmann::ordered_json json = {{"step", trace.step.value}};
  if (trace.context > 0) json["context"] = trace.context;
  json["samples"] = std::move(samples);
  return json;
}

void print_trace(const StepTrace& trace) {
  for (const TracedSample& sample : trace.samples) {
    fmt::print("row {}: {}, epoch {}, block {}, sample {}\n", sample.row, sample.source, sample.epoch,
               sample.block, sample.index);
    for (const TracedPart& part : sample.parts)
      fmt::print("  document {:<9} tokens {:>9} to {:<9} {}\n", part.document, part.begin, part.end,
                 part.text);
  }
}

void print_sources(const std::vector<SourceOverview>& sources, bool as_json) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const SourceOverview& s : sources) {
    list.push_back({{"name", s.name},
                    {"path", s.path},
                    {"kind", s.kind},
                    {"documents", s.documents},
                    {"empty_documents", s.empty_documents},
                    {"longest_document", s.longest_document},
                    {"tokens", s.tokens},
                    {"learned_tokens", s.learned_tokens},
                    {"bytes", s.bytes},
                    {"share", s.share}});
    if (as_json) continue;
    fmt::print("{} ({}): {}\n", s.name, s.kind, s.path);
    fmt::print("  {} documents ({} of them empty, the longest of {} tokens), {} tokens", s.documents,
               s.empty_documents, s.longest_document, s.tokens);
    if (s.learned_tokens < s.tokens) fmt::print(", {} of them learned", s.learned_tokens);
    fmt::print(", {:.1f} MB, share {:.4g}\n", static_cast<double>(s.bytes) / 1e6, s.share);
  }
  if (as_json) print_data_json({{"sources", list}});
}

RunConfig config_of(const fs::path& run) {
  const fs::path file = fs::is_directory(run) ? run / "config.toml" : run;
  RunConfig config = load_config({.file = file.string(), .overrides = {}, .environment = environment}).config;
  resolve_parallel(config, mesh_ranks(config));
  return config;
}

}  // namespace

int data_command(std::span<const std::string> arguments) {
  DataArguments read;
  if (const auto answered = read_arguments(arguments, read)) return *answered;
  CHECK_AS(ExitCode::Data, fs::exists(read.run), "{}: there is no such run folder", read.run);
  if (read.sources) {
    print_sources(overview_of_sources(config_of(read.run)), read.json);
  } else {
    const StepTrace trace = trace_step(read.run, Steps(read.step));
    if (read.json)
      print_data_json(to_json(trace));
    else
      print_trace(trace);
  }
  return static_cast<int>(ExitCode::Success);
}

}  // namespace tessera::tools
