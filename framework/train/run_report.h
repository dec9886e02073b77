// SPDX-License-Identifier: Apache-2.0
// What `tessera report` says of runs: a table of figures as JSON, the chart of their losses, and a page with
// everything in one HTML file that loads nothing.
#pragma once
#include <span>
#include <string>

#include "framework/train/chart.h"
#include "framework/train/run_history.h"

namespace tessera {

// NaN where the run has no such value.
struct RunFigures {
  size_t steps = 0;  // lines of metrics.jsonl
  double last_step = kNoValue;
  double first_loss = kNoValue, last_loss = kNoValue;  // of the steps with a finite loss
  Point lowest_loss;                                   // the first of the lowest
  Point eval_loss;                                     // the last finite one
  double tokens_per_second = kNoValue;  // all tokens over all seconds, not the mean of the steps' rates
  double goodput = kNoValue;  // share of the seconds of steps; what lies outside of steps is unknown
  double peak_memory_bytes = kNoValue;  // largest rank and step
};
RunFigures figures_of(const RunHistory& run);

// {"runs": [{"run": ..., "steps": ..., ..., "differences": [{"key", "before", "after"}]}]}; numbers read back
// bit-equal, and what a run does not have is null.
std::string figures_json(std::span<const RunHistory> runs);

// Loss and evaluation loss of every run over steps.
Chart loss_chart(std::span<const RunHistory> runs, bool log);

// By ratio when the largest norm is above 20 times the median: the first steps of fresh weights may have
// norms hundreds of times those of all others, which would lie flat beneath them.
Chart grad_norm_chart(std::span<const RunHistory> runs);

// The HTML file. `log`: losses by ratio.
std::string report_page(std::span<const RunHistory> runs, bool log);

}  // namespace tessera
