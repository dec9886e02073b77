// SPDX-License-Identifier: Apache-2.0
#include "framework/train/run_history.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "framework/base/check.h"
#include "framework/tokenizer/utf8.h"
#include "framework/train/run_folder.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using MetricsJson = nlohmann::json;

std::string as_utf8(std::string_view bytes) {
  std::string text;
  while (!bytes.empty()) {
    const size_t valid = valid_utf8(bytes);
    text += bytes.substr(0, valid);
    bytes.remove_prefix(valid);
    if (bytes.empty()) break;
    text += "\uFFFD";
    bytes.remove_prefix(invalid_utf8(bytes));
  }
  return text;
}

// One line of metrics.jsonl; each reader names a field of another type with the place of the line.
class MetricsLine {
 public:
  MetricsLine(const fs::path& file, int64_t number, const std::string& text) : file_(file), number_(number) {
    try {
      json_ = MetricsJson::parse(text);
    } catch (const MetricsJson::parse_error& error) {
      throw Error(ExitCode::Data, fmt::format("{}:{}:{}: is no JSON from here on", file_.string(), number_,
                                              std::max<size_t>(error.byte, 1)));
    } catch (const MetricsJson::exception&) {
      fault("has a number that no double can hold");
    }
    if (!json_.is_object()) fault("is no JSON object");
  }

  [[noreturn]] void fault(std::string_view what) const {
    fail(ExitCode::Data, "{}:{}: {}", file_.string(), number_, what);
  }

  // Null, as numbers that are not finite are written, and an absent field are NaN.
  double number(const char* field) const {
    const auto found = json_.find(field);
    return found == json_.end() ? kNoValue : number(field, *found);
  }

  double number(std::string_view field, const MetricsJson& value) const {
    if (value.is_null()) return kNoValue;
    if (!value.is_number()) fault(fmt::format("'{}' is no number", field));
    return value.get<double>();
  }

  double step() const {
    const auto found = json_.find("step");
    if (found == json_.end()) fault("has no 'step'");
    if (!found->is_number_unsigned()) fault("'step' is no whole number");
    return found->get<double>();
  }

  bool flag(const char* field) const {
    const auto found = json_.find(field);
    if (found == json_.end()) return false;
    if (!found->is_boolean()) fault(fmt::format("'{}' is neither true nor false", field));
    return found->get<bool>();
  }

  bool has(const char* field) const { return json_.contains(field); }

  // The numbers of an object by name; none when it is absent.
  std::map<std::string, double> numbers(const char* field) const {
    std::map<std::string, double> numbers;
    const auto found = json_.find(field);
    if (found == json_.end()) return numbers;
    if (!found->is_object()) fault(fmt::format("'{}' is no JSON object", field));
    for (const auto& [name, value] : found->items())
      numbers[name] = number(fmt::format("{}.{}", field, name), value);
    return numbers;
  }

 private:
  const fs::path& file_;
  int64_t number_;
  MetricsJson json_;
};

void add_line(RunHistory& run, const MetricsLine& line) {
  const double step = line.step();
  if (!run.loss.empty() && step <= run.loss.back().step)
    line.fault(fmt::format("step {} comes after step {}", step, run.loss.back().step));
  run.loss.push_back({step, line.number("loss")});
  run.grad_norm.push_back({step, line.number("grad_norm")});
  run.learning_rate.push_back({step, line.number("lr")});
  run.tokens_per_second.push_back({step, line.number("tokens_per_second")});
  run.peak_memory_bytes.push_back({step, line.number("peak_memory_bytes")});
  if (line.has("eval_loss")) run.eval_loss.push_back({step, line.number("eval_loss")});
  for (const auto& [source, loss] : line.numbers("source_loss"))
    run.source_loss[source].push_back({step, loss});
  for (const auto& [source, tokens] : line.numbers("source_tokens")) {
    if (std::isnan(tokens)) line.fault(fmt::format("'source_tokens.{}' is no number", source));
    Series& series = run.source_tokens[source];
    series.push_back({step, (series.empty() ? 0 : series.back().value) + tokens});
  }
  run.seen_tokens = line.number("seen_tokens");
  if (const double tokens = line.number("tokens"); !std::isnan(tokens)) run.trained_tokens += tokens;
  (void)line.number("step_seconds");  // summed by read_goodput, which passes over what is no number
  run.skipped_steps += line.flag("skipped") ? 1 : 0;
}

void read_metrics(RunHistory& run, const fs::path& path) {
  if (!fs::is_regular_file(path))
    fail(ExitCode::Data, "{} is missing: is this a run's folder?", path.string());
  std::ifstream file(path, std::ios::binary);
  if (!file) fail(ExitCode::Data, "cannot read {}", path.string());
  int64_t number = 0;
  for (std::string text; std::getline(file, text);) {
    ++number;
    if (file.eof()) {
      run.notes.push_back(fmt::format("line {} of metrics.jsonl has no end yet and was left out", number));
      break;
    }
    add_line(run, MetricsLine(path, number, text));
  }
  if (file.bad()) fail(ExitCode::Data, "cannot read {}", path.string());
  if (run.loss.empty()) run.notes.push_back("metrics.jsonl has no steps yet");
}

void read_config(RunHistory& run, const fs::path& path) {
  if (!fs::is_regular_file(path)) {
    run.notes.push_back("there is no config.toml");
    return;
  }
  try {
    run.config = load_config({.file = path, .overrides = {}, .environment = {}, .saved = true}).config;
  } catch (const Error& error) {
    fail(ExitCode::Data, "{}", error.what());  // not a config that the user could mend: a damaged folder
  }
}

}  // namespace

RunHistory read_run_history(const fs::path& folder) {
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored))
    fail(ExitCode::Data, "{} is no folder of a run: it does not exist, or is a file", folder.string());
  const RunFolder files(folder);
  RunHistory run;
  run.name = as_utf8(folder.string());
  run.time = read_goodput(files.metrics_file(), files.lost_metrics_file());
  read_config(run, folder / "config.toml");
  read_metrics(run, files.metrics_file());
  return run;
}

}  // namespace tessera
