// SPDX-License-Identifier: Apache-2.0
// `tessera bench step`: speed and memory of a training step, as shares of the machine's own limit.
// `tessera bench data`: opening the corpora and reading the batches. `comm` and `schedule` are elsewhere.
#include <fmt/core.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "framework/base/check.h"
#include "framework/config/load.h"
#include "framework/config/resolve.h"
#include "framework/train/bench_data.h"
#include "framework/train/bench_step.h"
#include "framework/train/run_ranks.h"
#include "models/registry.h"
#include "tools/command_line.h"
#include "tools/commands.h"

namespace tessera::tools {
namespace {

struct BenchArguments {
  std::string what, config;
  std::vector<std::string> set;
  int steps = 10, warmup = 2;
  bool json = false;
};

constexpr const char* kBenchExamples = R"(examples:
  tessera bench step --config configs/bench/gpt_14m.toml
  tessera bench step --config configs/bench/gpt_14m.toml --set parallel.dp=2 --set run.threads_per_rank=1
  mpirun -n 2 tessera bench step --config configs/bench/gpt_14m.toml --json
  tessera bench data --config configs/bench/gpt_14m.toml --steps 100
  tessera bench comm --help                                     all-reduces beside their formulas
  tessera bench schedule --help                                 the simulator beside real ranks)";

std::optional<int> read_arguments(std::span<const std::string> arguments, BenchArguments& read) {
  CLI::App app{"Measures parts, each as a share of the machine's own limit.", "tessera bench"};
  app.footer(kBenchExamples);
  app.add_option("what", read.what, "step or data; or comm or schedule, which have options of their own")
      ->required()
      ->check(CLI::IsMember({"step", "data", "ops", "comm", "checkpoint"}));
  app.add_option("--config", read.config, "The run's TOML file")->required();
  app.add_option("--set", read.set, "section.key=value: overrides a key; may repeat")
      ->allow_extra_args(false);
  app.add_option("--steps", read.steps, "Timed steps")->check(CLI::PositiveNumber);
  app.add_option("--warmup", read.warmup, "Steps before the timed ones")->check(CLI::NonNegativeNumber);
  app.add_flag("--json", read.json, "One JSON object on stdout");
  return parse(app, arguments);
}

int64_t peak_resident_bytes() {
  struct rusage usage {};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss * 1024;
}

void print_step(const StepBenchmark& result, int ranks, bool as_json) {
  if (as_json) {
    nlohmann::ordered_json json;
    json["tokens_per_second"] = result.tokens_per_second;
    json["matmul_peak_share"] = result.matmul_peak_share;
    json["peak_memory_bytes"] = result.peak_memory_bytes;
    json["step_seconds"] = result.step_seconds;
    json["fastest_step_seconds"] = result.fastest_step_seconds;
    json["matmul_peak_flops_per_second"] = result.matmul_peak;
    json["model_flops_per_token"] = result.flops_per_token;
    json["process_peak_resident_bytes"] = peak_resident_bytes();
    json["sent_bytes"] = result.sent_bytes;
    json["ranks"] = ranks;
    fmt::print("{}\n", json.dump());
    return;
  }
  fmt::print("{:.0f} tokens/s   median step {:.1f} ms (fastest {:.1f} ms), {} rank{}\n",
             result.tokens_per_second, 1e3 * result.step_seconds, 1e3 * result.fastest_step_seconds, ranks,
             ranks == 1 ? "" : "s");
  fmt::print("{:.1f} % of the measured matmul peak of {:.1f} GFLOP/s   ({:.1f} MFLOP a token)\n",
             100 * result.matmul_peak_share, result.matmul_peak / 1e9, result.flops_per_token / 1e6);
  fmt::print("{:.0f} MiB allocator peak of the largest rank, {:.0f} MiB resident peak of this process\n",
             static_cast<double>(result.peak_memory_bytes) / (1 << 20),
             static_cast<double>(peak_resident_bytes()) / (1 << 20));
  if (ranks > 1)
    fmt::print("{:.3f} MB sent in a step by the rank that sends most\n",
               static_cast<double>(result.sent_bytes) / 1e6);
}

void print_data(const DataBenchmark& result, bool as_json) {
  const double tokens_per_second = static_cast<double>(result.tokens) / result.read_seconds;
  if (as_json) {
    const nlohmann::ordered_json json = {{"open_seconds", result.open_seconds},
                                         {"read_seconds", result.read_seconds},
                                         {"step_tokens", result.tokens},
                                         {"read_tokens_per_second", tokens_per_second}};
    fmt::print("{}\n", json.dump());
    return;
  }
  fmt::print("opened in {:.3f} s; a step's {} tokens in {:.3f} ms ({:.0f} million tokens/s)\n",
             result.open_seconds, result.tokens, 1e3 * result.read_seconds, tokens_per_second / 1e6);
}

}  // namespace

int bench_command(std::span<const std::string> command_line) {
  if (!command_line.empty() && command_line.front() == "comm")
    return bench_comm_command(command_line.subspan(1));
  if (!command_line.empty() && command_line.front() == "schedule")
    return bench_schedule_command(command_line.subspan(1));
  BenchArguments arguments;
  if (const auto answered = read_arguments(command_line, arguments)) return *answered;
  CHECK_AS(ExitCode::Usage, arguments.what == "step" || arguments.what == "data",
           "tessera bench {} is not built yet; 'step', 'data', 'comm' and 'schedule' are", arguments.what);
  LoadedConfig loaded =
      load_config({.file = arguments.config, .overrides = arguments.set, .environment = environment});
  const LaunchInfo launch = read_launch(environment);
  const int ranks = launch.size.value_or(static_cast<int>(mesh_ranks(loaded.config)));
  resolve_parallel(loaded.config, ranks);
  if (arguments.what == "data") {
    print_data(bench_data(loaded.config, arguments.warmup, arguments.steps), arguments.json);
    return 0;
  }
  const ModelDefinition model = define_model(loaded.config);
  run_ranks(loaded.config, {.ranks = ranks, .launch = launch}, [&](Communicator& world, Backend& backend) {
    const StepBenchmark result =
        bench_step(loaded.config, model, world, backend, arguments.warmup, arguments.steps);
    if (world.rank() == 0) print_step(result, ranks, arguments.json);
  });
  return 0;
}

}  // namespace tessera::tools
