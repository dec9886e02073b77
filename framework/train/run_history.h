// SPDX-License-Identifier: Apache-2.0
// What a run left behind about its steps, read from its folder: the series of metrics.jsonl and the sums over
// them. Every value is untrusted: a line that is no metrics line is an error with its place.
#pragma once
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "framework/config/load.h"
#include "framework/train/time_summary.h"

namespace tessera {

inline constexpr double kNoValue = std::numeric_limits<double>::quiet_NaN();

// A value by step; NaN where there was a step without a value.
struct Point {
  double step = 0, value = kNoValue;
  bool operator==(const Point&) const = default;
};
using Series = std::vector<Point>;  // by rising step

struct RunHistory {
  std::string name;                 // the folder as it was given, as UTF-8
  std::optional<RunConfig> config;  // none without a config.toml
  std::vector<std::string> notes;   // for the reader of a report: what was left out
  // One point a line of metrics.jsonl.
  Series loss, grad_norm, learning_rate, tokens_per_second, peak_memory_bytes;
  Series eval_loss;                             // of the steps with an evaluation
  std::map<std::string, Series> source_loss;    // of the steps that trained tokens of the source
  std::map<std::string, Series> source_tokens;  // the same, trained up to and with the step
  double seen_tokens = kNoValue;                // after the last step
  double trained_tokens = 0;                    // of all lines
  int64_t skipped_steps = 0;
  Goodput time;  // of steps; the lost ones from metrics.lost.jsonl

  double step_seconds() const { return time.kept + time.skipped; }  // of the lines of metrics.jsonl
};

// Throws Error(Data) with FILE:LINE and the reason. A last line without newline, as a run that goes on or was
// killed leaves it, is left out with a note.
RunHistory read_run_history(const std::filesystem::path& folder);

}  // namespace tessera
