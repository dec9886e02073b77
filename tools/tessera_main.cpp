// SPDX-License-Identifier: Apache-2.0
// `tessera <command>`: finds the command and hands it the rest of the line.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "framework/base/check.h"
#include "tools/command_line.h"
#include "tools/commands.h"

namespace {

using namespace tessera;

struct Command {
  std::string_view name, help;
  int (*run)(std::span<const std::string>);  // null: asked for by a later issue
};

constexpr std::array<Command, 11> kCommands{{
    {"tokenize", "text or JSONL to token files", tools::tokenize_command},
    {"generate", "text from a checkpoint", tools::generate_command},
    {"checkpoint", "inspect, verify or compare checkpoints", tools::checkpoint_command},
    {"bench", "measure parts as shares of the machine's limits", tools::bench_command},
    {"plan", "memory, traffic and step time before running", nullptr},
    {"convert", "import and export of Hugging Face folders", nullptr},
    {"compare", "layouts side by side, and the first tensor that differs", tools::compare_command},
    {"report", "runs as one page: curves, figures, configs", tools::report_command},
    {"data", "what was trained when, and what corpora hold", tools::data_command},
    {"launch", "job scripts", nullptr},
    {"train", "the same as the program `train`", tools::train_command},
}};

void print_help() {
  fmt::print(
      "Tessera trains large language models from one TOML file.\n\nusage: tessera COMMAND "
      "[OPTIONS]\n\ncommands:\n");
  for (const Command& command : kCommands)
    if (command.run) fmt::print("  {:<12}{}\n", command.name, command.help);
  fmt::print(
      "\nexamples:\n"
      "  train --config configs/gpt/tiny.toml\n"
      "  tessera tokenize --tokenizer bytes --input book.txt --output runs/book\n"
      "  tessera generate --checkpoint runs/tiny --prompt 'Once upon'\n"
      "  tessera checkpoint verify runs/tiny\n"
      "  tessera report runs/tiny\n\n"
      "`tessera COMMAND --help` tells more; docs/config.md lists the keys of a config file.\n");
}

int dispatch(std::span<const std::string> arguments) {
  if (arguments.empty() || arguments[0] == "--help" || arguments[0] == "-h" || arguments[0] == "help") {
    print_help();
    return arguments.empty() ? static_cast<int>(ExitCode::Usage) : 0;
  }
  if (arguments[0] == "--version") {
    fmt::print("tessera {}\n", TESSERA_VERSION);
    return 0;
  }
  const auto found = std::find_if(kCommands.begin(), kCommands.end(),
                                  [&](const Command& command) { return command.name == arguments[0]; });
  if (found == kCommands.end())
    fail(ExitCode::Usage, "'{}' is not a command (see tessera --help)", arguments[0]);
  if (!found->run) fail(ExitCode::Usage, "tessera {} is not built yet", found->name);
  return found->run(arguments.subspan(1));
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  return tessera::tools::report_errors([&] { return dispatch(arguments); });
}
