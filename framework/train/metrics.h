// SPDX-License-Identifier: Apache-2.0
// The figures of one step, global over all ranks, and their forms: a line of metrics.jsonl, the same numbers
// by name for charts, and a line for people.
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "framework/base/quantity.h"
#include "framework/nn/context.h"
#include "framework/train/tensor_figures.h"

namespace tessera {

struct StepMetrics {
  Steps step{0};
  double loss = 0;
  double grad_norm = 0;  // before clipping
  double learning_rate = 0;
  Tokens tokens{0};                              // trained in this step
  Tokens seen_tokens{0};                         // since the start of training
  std::map<std::string, int64_t> source_tokens;  // trained in this step, by source
  std::map<std::string, double> source_loss;     // of those sources that trained tokens
  double step_seconds = 0;
  double model_flops = 0;            // of the step, all ranks
  std::optional<double> peak_flops;  // per second, all ranks; absent when unknown
  int64_t peak_memory_bytes = 0;     // largest rank
  double loss_scale = 1;
  bool skipped = false;
  int64_t skipped_empty_batches = 0;  // so far
  std::optional<double> eval_loss;
  std::vector<TensorFigures> tensors;              // of the steps that logging.per_tensor names
  std::map<std::string, double> observed;          // what modules reported
  std::vector<std::array<int64_t, 4>> sample_ids;  // as SampleId; with debug.log_sample_ids
};

// One JSON object; doubles are printed so that they read back bit-equal, and non-finite ones as null.
std::string to_json_line(const StepMetrics& metrics);

// The numbers of that object by name, in its order: "loss", "source_loss/NAME" for one that lies in an
// object; flags are 0 or 1. Without the step, lists and what is unknown; numbers that are not finite are
// themselves.
std::vector<std::pair<std::string, double>> named_numbers(const StepMetrics& metrics);

// "step 12/100  loss 3.1416  |g| 0.82  lr 3.0e-04  5210 tokens/s  MFU 83.1 %  1m02s left  412 MiB"
std::string to_progress_line(const StepMetrics& metrics, Steps last, double seconds_left);

// Prints progress: one line that rewrites itself on a terminal, plain lines otherwise.
class ProgressLine {
 public:
  // `interval` in steps. Writes to stderr.
  ProgressLine(bool terminal, int64_t interval) : terminal_(terminal), interval_(interval) {}
  void show(const StepMetrics& metrics, Steps last);
  void finish();  // leaves the cursor on a fresh line

 private:
  bool terminal_;
  int64_t interval_;
  double average_seconds_ = 0;  // of a step, exponentially weighted
  bool open_ = false;
};

// Sums what modules observe during a step.
class MetricSums final : public MetricSink {
 public:
  void add(std::string_view name, double value) override { sums_[std::string(name)] += value; }
  std::map<std::string, double> take() { return std::exchange(sums_, {}); }

 private:
  std::map<std::string, double> sums_;
};

}  // namespace tessera
