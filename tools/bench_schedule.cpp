// SPDX-License-Identifier: Apache-2.0
// `tessera bench schedule`: each schedule on thread ranks that sleep instead of working, beside the
// simulator.
#include "framework/train/bench_schedule.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "tools/command_line.h"
#include "tools/commands.h"

namespace tessera::tools {
namespace {

struct Arguments {
  ScheduleBenchOptions options;
  double forward_ms = 100, input_ms = 100, weight_ms = 100;
  bool json = false;
};

constexpr const char* kExamples = R"(examples:
  tessera bench schedule
  tessera bench schedule --ranks 4 --microbatches 12 --forward-ms 180 --input-ms 180 --weight-ms 90 --recompute)";

std::optional<int> read_arguments(std::span<const std::string> arguments, Arguments& read) {
  CLI::App app{"Measures how near the simulator comes to real ranks: work is a sleep of known length.",
               "tessera bench schedule"};
  app.footer(kExamples);
  app.add_option("--ranks", read.options.ranks, "Thread ranks of the pipeline")->check(CLI::Range(1, 16));
  app.add_option("--microbatches", read.options.microbatches, "Micro-batches of a step")
      ->check(CLI::Range(1, 256));
  const CLI::Range length(0.1, 10000.0);
  app.add_option("--forward-ms", read.forward_ms, "F of a rank's layers")->check(length);
  app.add_option("--input-ms", read.input_ms, "I of a rank's layers")->check(length);
  app.add_option("--weight-ms", read.weight_ms, "W of a rank's layers")->check(length);
  app.add_flag("--recompute", read.options.recompute, "Run each forward again before its backward");
  app.add_flag("--json", read.json, "One JSON object on stdout");
  return parse(app, arguments);
}

}  // namespace

int bench_schedule_command(std::span<const std::string> command_line) {
  Arguments arguments;
  if (const auto answered = read_arguments(command_line, arguments)) return *answered;
  ScheduleBenchOptions& options = arguments.options;
  options.forward = arguments.forward_ms / 1e3;
  options.backward_input = arguments.input_ms / 1e3;
  options.backward_weight = arguments.weight_ms / 1e3;
  nlohmann::ordered_json json;
  if (!arguments.json)
    fmt::print("{:<22} {:>6}  {:>10}  {:>10}  {}\n", "schedule", "stages", "simulated", "measured",
               "difference");
  for (const ScheduleTiming& timing : bench_schedules(options)) {
    const double difference = timing.measured / timing.simulated - 1;
    if (arguments.json)
      json["schedules"].push_back({{"name", timing.name},
                                   {"stages", timing.stages},
                                   {"simulated_seconds", timing.simulated},
                                   {"measured_seconds", timing.measured},
                                   {"difference", difference}});
    else
      fmt::print("{:<22} {:>6}  {:>8.1f}ms  {:>8.1f}ms  {:+.2f} %\n", timing.name, timing.stages,
                 1e3 * timing.simulated, 1e3 * timing.measured, 100 * difference);
  }
  if (arguments.json) fmt::print("{}\n", json.dump());
  return 0;
}

}  // namespace tessera::tools
