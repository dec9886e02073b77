// SPDX-License-Identifier: Apache-2.0
// `tessera compare`: layouts of one config side by side, and the first tensor that differs.
#include <fmt/core.h>

#include <CLI/CLI.hpp>

#include "framework/base/check.h"
#include "framework/config/resolve.h"
#include "framework/train/compare_config.h"
#include "framework/train/compare_report.h"
#include "framework/train/compare_shrink.h"
#include "framework/train/predict.h"
#include "framework/train/run_ranks.h"
#include "models/registry.h"
#include "tools/command_line.h"
#include "tools/commands.h"

namespace tessera::tools {
namespace {

struct CompareArguments {
  std::string config;
  std::vector<std::string> set, layouts;
  int steps = 5;
  bool shrink = false, synthetic = false, threads_anyway = false, json = false;
};

constexpr const char* kCompareExamples = R"(examples:
  tessera compare --config configs/gpt/tiny.toml --layout "tp=2 dp=2"           against one rank
  tessera compare --config configs/llama/tiny.toml --layout "dp=4" --layout "tp=2 train.micro_batch_size=2"
  tessera compare --config configs/gpt/gpt175b.toml --shrink                    the config's own layout, small sizes
exit codes: 0 all layouts agree, 2 usage or config, 3 data, 4 a layout differs by more than rounding,
            5 rank failure)";

std::optional<int> read_arguments(std::span<const std::string> arguments, CompareArguments& read) {
  CLI::App app{
      "Runs layouts of one config side by side on thread ranks and names the first tensor that differs.",
      "tessera compare"};
  app.footer(kCompareExamples);
  app.add_option("--config", read.config, "The run's TOML file")->required();
  app.add_option("--set", read.set, "section.key=value: overrides a key in every layout; may repeat")
      ->allow_extra_args(false);
  app.add_option(
         "--layout", read.layouts,
         "\"tp=2 zero_stage=1 train.micro_batch_size=2\": bare keys are of [parallel]; may repeat. The first "
         "is the reference; with one, or none for the config's own, the reference is one rank")
      ->allow_extra_args(false);
  app.add_option("--steps", read.steps, "Steps of each layout (5)")->check(CLI::Range(1, 1'000'000));
  app.add_flag("--shrink", read.shrink, "A small copy of the model on a small mesh, with synthetic tokens");
  app.add_flag("--synthetic", read.synthetic, "Made-up documents instead of the config's data");
  app.add_flag("--threads-anyway", read.threads_anyway,
               "Run more thread ranks than the machine has room for");
  app.add_flag("--json", read.json, "One JSON object on stdout");
  return parse(app, arguments);
}

// Shrinks every layout; what changed in the one that is not the reference's alone.
std::vector<ConfigDifference> shrink(std::vector<CompareLayout>& layouts, const CompareArguments& arguments) {
  const RunConfig before = layouts.back().config;
  constexpr int64_t kNoLimit = int64_t{1} << 20;
  shrink_layouts(layouts, arguments.threads_anyway ? kNoLimit : most_thread_ranks(), arguments.steps);
  // The small config must be one that a file could hold: every rule is checked again.
  for (CompareLayout& layout : layouts)
    layout.config = parse_config(to_toml(layout.config),
                                 {.file = "(shrunk) " + arguments.config, .overrides = {}, .environment = {}})
                        .config;
  return differences(before, layouts.back().config);
}

// Checks what must hold before ranks start, and what they will need.
void prepare(std::vector<CompareLayout>& layouts, const CompareArguments& arguments) {
  for (CompareLayout& layout : layouts) {
    const auto ranks = static_cast<int>(mesh_ranks(layout.config));
    check_launch({.ranks = ranks, .launch = {}, .threads_anyway = arguments.threads_anyway});
    std::string unused;
    const int threads = threads_of_rank(layout.config.run.threads_per_rank, ranks, unused);
    const ModelDefinition model = define_model(layout.config);
    resolve_auto_schedule(layout.config, model);
    resolve_memory_budget(layout.config, model, ranks, threads);
    layout.bytes = predict_memory(layout.config, model, ranks, threads).peak() * ranks;
  }
}

}  // namespace

int compare_command(std::span<const std::string> command_line) {
  CompareArguments arguments;
  if (const auto answered = read_arguments(command_line, arguments)) return *answered;
  const LaunchInfo launch = read_launch(environment);
  CHECK_AS(ExitCode::Usage, !launch.launched || launch.size.value_or(1) == 1,
           "tessera compare runs all ranks as threads: start it without a launcher");

  auto [layouts, notes] = layout_configs(
      {.file = arguments.config, .overrides = arguments.set, .environment = environment}, arguments.layouts);
  for (const std::string& note : notes) fmt::print(stderr, "note: {}\n", note);
  std::vector<ConfigDifference> shrunk;
  if (arguments.shrink) shrunk = shrink(layouts, arguments);
  resolve_layouts(layouts);
  CHECK_AS(ExitCode::Usage, layouts.size() > 2 || !(layouts[0].config == layouts[1].config),
           "nothing to compare: \"{}\" and \"{}\" are the same; give a --layout such as \"tp=2\"",
           layouts[0].name, layouts[1].name);
  std::optional<SyntheticTokens> synthetic;
  if (arguments.shrink || arguments.synthetic) synthetic.emplace(layouts);
  prepare(layouts, arguments);

  if (!arguments.json)
    for (const ConfigDifference& change : shrunk)
      fmt::print("shrunk: {:<40} {} -> {}\n", change.key, change.before, change.after);
  const CompareResult result =
      compare_layouts({.layouts = layouts,
                       .define = define_model,
                       .steps = arguments.steps,
                       .free_bytes = arguments.threads_anyway ? 0 : available_memory_bytes()});
  fmt::print("{}", arguments.json ? compare_json(result, shrunk) : compare_text(result));
  return static_cast<int>(result.agree() ? ExitCode::Success : ExitCode::Numeric);
}

}  // namespace tessera::tools
