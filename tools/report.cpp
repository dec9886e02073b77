// SPDX-License-Identifier: Apache-2.0
// `tessera report`: a page, a chart or the figures of runs, from the files in their folders.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <filesystem>

#include "framework/base/check.h"
#include "framework/train/run_folder.h"
#include "framework/train/run_report.h"
#include "tools/command_line.h"
#include "tools/commands.h"

namespace tessera::tools {
namespace {

struct ReportArguments {
  std::vector<std::string> runs;
  std::string output, svg;
  bool json = false, log = false;
};

constexpr const char* kReportExamples = R"(examples:
  tessera report runs/gpt_tiny                                  writes report.html
  tessera report runs/small runs/large --output compared.html   the curves of both in one chart
  tessera report runs/small runs/large --svg loss.svg --log     the losses alone, by ratio
  tessera report runs/gpt_tiny --json                           the figures on stdout, no file
exit codes: 0 written, 2 usage, 3 a folder, its metrics.jsonl or config.toml is missing or damaged)";

std::optional<int> read_arguments(std::span<const std::string> arguments, ReportArguments& read) {
  CLI::App app{"Shows runs, going on or ended, in one HTML file that needs nothing else.", "tessera report"};
  app.footer(kReportExamples);
  app.add_option("RUN_DIR", read.runs, "Run folders (run.output_dir); configs are compared with the first")
      ->required();
  app.add_option("--output", read.output,
                 "The HTML file; report.html when neither --svg nor --json is given");
  app.add_option("--svg", read.svg, "The chart of the losses as a file of its own");
  app.add_flag("--log", read.log, "Loss axes by ratio");
  app.add_flag("--json", read.json, "The figures as one JSON object on stdout");
  if (const auto answered = parse(app, arguments)) return answered;
  if (read.output.empty() && read.svg.empty() && !read.json) read.output = "report.html";
  for (size_t i = 0; i < read.runs.size(); ++i)
    for (size_t j = 0; j < i; ++j) {
      std::error_code missing;  // is found when the folder is read
      if (std::filesystem::equivalent(read.runs[i], read.runs[j], missing))
        fail(ExitCode::Usage, "{} and {} are the same run", read.runs[j], read.runs[i]);
    }
  return std::nullopt;
}

}  // namespace

int report_command(std::span<const std::string> command_line) {
  ReportArguments arguments;
  if (const auto answered = read_arguments(command_line, arguments)) return *answered;
  std::vector<RunHistory> runs;
  for (const std::string& folder : arguments.runs) runs.push_back(read_run_history(folder));
  for (const RunHistory& run : runs)
    for (const std::string& note : run.notes) fmt::print(stderr, "note: {}: {}\n", run.name, note);

  // All is drawn before the first file is written.
  const std::string page = arguments.output.empty() ? "" : report_page(runs, arguments.log);
  const std::string chart = arguments.svg.empty() ? "" : to_svg(loss_chart(runs, arguments.log));
  if (!page.empty()) write_file_atomically(arguments.output, page);
  if (!chart.empty()) write_file_atomically(arguments.svg, chart);
  if (arguments.json) {
    fmt::print("{}", figures_json(runs));
    return 0;
  }
  for (const std::string& path : {arguments.output, arguments.svg})
    if (!path.empty()) fmt::print("{}\n", path);
  return 0;
}

}  // namespace tessera::tools
