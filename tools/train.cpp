// SPDX-License-Identifier: Apache-2.0
// `train --config FILE`: reads and checks the config, finds out how it was launched, and runs the ranks.
#include <fmt/core.h>

#include <CLI/CLI.hpp>

#include "framework/base/check.h"
#include "framework/config/load.h"
#include "framework/config/resolve.h"
#include "framework/train/launch.h"
#include "framework/train/predict.h"
#include "framework/train/report.h"
#include "framework/train/run_ranks.h"
#include "framework/train/trainer.h"
#include "models/registry.h"
#include "tools/command_line.h"
#include "tools/commands.h"

namespace tessera::tools {
namespace {

struct TrainArguments {
  std::string config, resume = "auto", print;
  std::vector<std::string> set, allow_change;
  std::optional<int> ranks;
  bool check = false, eval_only = false, threads_anyway = false, json = false;
};

constexpr const char* kTrainExamples = R"(examples:
  train --config configs/gpt/tiny.toml
  train --config configs/gpt/tiny.toml --set parallel.dp=2         two ranks as threads
  mpirun -n 2 train --config configs/gpt/tiny.toml                 two ranks as processes
  train --config configs/gpt/gpt175b.toml --check --ranks 1024     mesh and memory, no training
  train --config runs/tiny/config.toml --resume required           go on where a run stopped
exit codes: 0 finished, 2 usage or config, 3 data or checkpoint, 4 numeric, 5 rank failure,
            75 stopped by a signal after a complete checkpoint)";

std::optional<int> read_arguments(std::span<const std::string> arguments, TrainArguments& read) {
  CLI::App app{"Trains the model that one TOML file declares.", "train"};
  app.footer(kTrainExamples);
  app.add_option("--config", read.config, "The run's TOML file")->required();
  app.add_option("--set", read.set, "section.key=value: overrides a key; may repeat")
      ->allow_extra_args(false);
  app.add_option("--resume", read.resume, "auto (default), none, required, or a checkpoint folder");
  app.add_option("--allow-change", read.allow_change,
                 "A key, or what holds keys (data.sources), that may differ from the resumed run; may repeat")
      ->allow_extra_args(false);
  app.add_flag("--check", read.check, "Validate, print mesh and memory, and stop");
  app.add_option("--ranks", read.ranks, "With --check or --print: stands for the launched ranks")
      ->check(CLI::PositiveNumber);
  app.add_flag("--eval-only", read.eval_only, "Evaluate the checkpoint and stop");
  app.add_option("--print", read.print, "config, params or schedule: print it and stop")
      ->check(CLI::IsMember({"config", "params", "schedule"}));
  app.add_flag("--threads-anyway", read.threads_anyway,
               "Run more thread ranks than the machine has room for");
  app.add_flag("--json", read.json, "With --check: one JSON object on stdout");
  return parse(app, arguments);
}

ResumePolicy resume_policy(const std::string& text) {
  using Kind = ResumePolicy::Kind;
  if (text == "auto") return {.kind = Kind::Auto};
  if (text == "none") return {.kind = Kind::None};
  if (text == "required") return {.kind = Kind::Required};
  return {.kind = Kind::Folder, .folder = text};
}

int world_size(const RunConfig& config, const LaunchInfo& launch, const TrainArguments& arguments) {
  const bool only_looks = arguments.check || !arguments.print.empty();
  if (arguments.ranks) {
    CHECK_AS(ExitCode::Usage, only_looks, "--ranks stands for the launch in --check and --print only");
    return *arguments.ranks;
  }
  return launch.size.value_or(static_cast<int>(mesh_ranks(config)));
}

// --ranks stands for a cluster, whose nodes nobody has described: one rank of it would run here.
int ranks_on_this_machine(const TrainArguments& arguments, const LaunchInfo& launch, int ranks) {
  if (arguments.ranks) return 1;
  return launch.launched ? launch.local_size.value_or(1) : ranks;
}

// Answers --print and --check; no ranks are started for them.
std::optional<int> answer_questions(const TrainArguments& arguments, const RunConfig& config,
                                    const ModelDefinition& model, const LaunchInfo& launch, int ranks) {
  if (arguments.print == "config") {
    fmt::print("{}", to_toml(config));
  } else if (arguments.print == "params") {
    fmt::print("{}", parameter_report(config, model));
  } else if (arguments.print == "schedule") {
    fmt::print("{}", schedule_report(config, model));
  } else if (arguments.check) {
    fmt::print("{}", check_report(config, model, ranks, ranks_on_this_machine(arguments, launch, ranks),
                                  arguments.json));
  } else {
    return std::nullopt;
  }
  return 0;
}

}  // namespace

int train_command(std::span<const std::string> command_line) {
  TrainArguments arguments;
  if (const auto answered = read_arguments(command_line, arguments)) return *answered;

  LoadedConfig loaded =
      load_config({.file = arguments.config, .overrides = arguments.set, .environment = environment});
  const LaunchInfo launch = read_launch(environment);
  const int ranks = world_size(loaded.config, launch, arguments);
  resolve_parallel(loaded.config, ranks);
  const ModelDefinition model = define_model(loaded.config);
  if (!launch.rank || *launch.rank == 0)
    for (const std::string& note : loaded.notes) fmt::print(stderr, "note: {}\n", note);
  resolve_auto_schedule(loaded.config, model);
  if (const auto answered = answer_questions(arguments, loaded.config, model, launch, ranks))
    return *answered;

  const RunRanksOptions options{.ranks = ranks, .launch = launch, .threads_anyway = arguments.threads_anyway};
  check_launch(options);
  const int ranks_here = ranks_on_this_machine(arguments, launch, ranks);
  std::string unused;
  const int threads = threads_of_rank(loaded.config.run.threads_per_rank, ranks_here, unused);
  resolve_memory_budget(loaded.config, model, ranks, threads);
  if (!arguments.threads_anyway) refuse_when_too_large(loaded.config, model, ranks, ranks_here);
  const TrainRequest request{
      .config = loaded.config,
      .model = model,
      .resume = resume_policy(arguments.resume),
      .allow_change = arguments.allow_change,
      .eval_only = arguments.eval_only,
      .planned_peak_bytes = predict_memory(loaded.config, model, ranks, threads).peak()};
  const TrainOutcome outcome = run_training(request, options);
  return static_cast<int>(outcome == TrainOutcome::Stopped ? ExitCode::Stopped : ExitCode::Success);
}

}  // namespace tessera::tools
