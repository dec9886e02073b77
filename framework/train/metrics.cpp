// SPDX-License-Identifier: Apache-2.0
#include "framework/train/metrics.h"

#include <cstdio>
#include <nlohmann/json.hpp>

namespace tessera {
namespace {

using MetricsRecord = nlohmann::ordered_json;

std::optional<double> mfu(const StepMetrics& m) {
  if (!m.peak_flops || m.step_seconds <= 0) return std::nullopt;
  return m.model_flops / m.step_seconds / *m.peak_flops;
}

// What both the line and the charts show.
MetricsRecord record_of(const StepMetrics& m) {
  MetricsRecord json;
  json["step"] = m.step.value;
  json["loss"] = m.loss;
  json["grad_norm"] = m.grad_norm;
  json["lr"] = m.learning_rate;
  json["tokens"] = m.tokens.value;
  json["seen_tokens"] = m.seen_tokens.value;
  json["source_loss"] = m.source_loss;
  json["source_tokens"] = m.source_tokens;
  json["step_seconds"] = m.step_seconds;
  json["tokens_per_second"] = static_cast<double>(m.tokens.value) / m.step_seconds;
  json["model_flops_per_second"] = m.model_flops / m.step_seconds;
  json["mfu"] = nullptr;
  if (const auto share = mfu(m)) json["mfu"] = *share;
  json["peak_memory_bytes"] = m.peak_memory_bytes;
  json["loss_scale"] = m.loss_scale;
  json["skipped"] = m.skipped;
  json["skipped_empty_batches"] = m.skipped_empty_batches;
  if (m.eval_loss) json["eval_loss"] = *m.eval_loss;
  for (const auto& [name, value] : m.observed) json[name] = value;
  for (const TensorFigures& tensor : m.tensors) {
    json["weight_norm"][tensor.name] = tensor.weight_norm;
    json["gradient_norm"][tensor.name] = tensor.gradient_norm;
    json["update_ratio"][tensor.name] = tensor.update_ratio;
  }
  if (!m.sample_ids.empty()) json["sample_ids"] = m.sample_ids;
  return json;
}

void add_number(std::vector<std::pair<std::string, double>>& numbers, const std::string& name,
                const MetricsRecord& value) {
  if (value.is_number()) numbers.emplace_back(name, value.get<double>());
  if (value.is_boolean()) numbers.emplace_back(name, value.get<bool>() ? 1 : 0);
}

std::string duration(double seconds) {
  const auto total = static_cast<int64_t>(seconds + 0.5);
  if (total >= 3600) return fmt::format("{}h{:02}m", total / 3600, total / 60 % 60);
  return total >= 60 ? fmt::format("{}m{:02}s", total / 60, total % 60) : fmt::format("{}s", total);
}

}  // namespace

std::string to_json_line(const StepMetrics& metrics) {
  return record_of(metrics).dump();
}

std::vector<std::pair<std::string, double>> named_numbers(const StepMetrics& metrics) {
  std::vector<std::pair<std::string, double>> numbers;
  const MetricsRecord record = record_of(metrics);
  for (const auto& [name, value] : record.items()) {
    if (value.is_object())
      for (const auto& [part, of_part] : value.items()) add_number(numbers, name + "/" + part, of_part);
    else if (name != "step")
      add_number(numbers, name, value);
  }
  return numbers;
}

std::string to_progress_line(const StepMetrics& m, Steps last, double seconds_left) {
  std::string line =
      fmt::format("step {}/{}  loss {:.4f}  |g| {:.3f}  lr {:.2e}  {:.0f} tokens/s", m.step.value, last.value,
                  m.loss, m.grad_norm, m.learning_rate, static_cast<double>(m.tokens.value) / m.step_seconds);
  if (const auto share = mfu(m)) line += fmt::format("  MFU {:.1f} %", 100 * *share);
  line += fmt::format("  {} left  {:.0f} MiB", duration(seconds_left),
                      static_cast<double>(m.peak_memory_bytes) / (1 << 20));
  if (m.loss_scale != 1) line += fmt::format("  scale {:g}", m.loss_scale);
  if (m.skipped) line += "  skipped";
  if (m.eval_loss) line += fmt::format("  eval {:.4f}", *m.eval_loss);
  return line;
}

void ProgressLine::show(const StepMetrics& metrics, Steps last) {
  average_seconds_ =
      average_seconds_ == 0 ? metrics.step_seconds : 0.9 * average_seconds_ + 0.1 * metrics.step_seconds;
  const bool final_step = metrics.step == last;
  const bool due = metrics.step.value % interval_ == 0 || final_step || metrics.eval_loss;
  if (!due && !terminal_) return;
  const std::string line =
      to_progress_line(metrics, last, average_seconds_ * static_cast<double>((last - metrics.step).value));
  // \033[K clears what a longer line left behind.
  if (terminal_)
    fmt::print(stderr, "\r{}\033[K{}", line, metrics.eval_loss ? "\n" : "");
  else
    fmt::print(stderr, "{}\n", line);
  std::fflush(stderr);
  open_ = terminal_ && !metrics.eval_loss;
}

void ProgressLine::finish() {
  if (open_) fmt::print(stderr, "\n");
  open_ = false;
}

}  // namespace tessera
