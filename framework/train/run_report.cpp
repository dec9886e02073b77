// SPDX-License-Identifier: Apache-2.0
#include "framework/train/run_report.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace tessera {
namespace {

using FiguresJson = nlohmann::ordered_json;

FiguresJson finite_or_null(double value) {
  return std::isfinite(value) ? FiguresJson(value) : FiguresJson();
}

// Amounts and steps are whole, and are printed so as far as a double knows every whole number.
FiguresJson whole_or_null(double value) {
  const bool exact = std::abs(value) <= 9007199254740992.0 && value == std::floor(value);
  return exact ? FiguresJson(static_cast<int64_t>(value)) : finite_or_null(value);
}

FiguresJson source_figures(const RunHistory& run) {
  FiguresJson sources = FiguresJson::object();
  for (const auto& [name, tokens] : run.source_tokens)
    sources[name]["tokens"] = whole_or_null(tokens.back().value);
  for (const auto& [name, losses] : run.source_loss)
    sources[name]["loss"] = finite_or_null(losses.back().value);
  return sources;
}

FiguresJson run_figures(const RunHistory& run) {
  const RunFigures figures = figures_of(run);
  return {{"run", run.name},
          {"notes", run.notes},
          {"steps", figures.steps},
          {"last_step", whole_or_null(figures.last_step)},
          {"seen_tokens", whole_or_null(run.seen_tokens)},
          {"first_loss", finite_or_null(figures.first_loss)},
          {"last_loss", finite_or_null(figures.last_loss)},
          {"lowest_loss", finite_or_null(figures.lowest_loss.value)},
          {"lowest_loss_step", whole_or_null(figures.lowest_loss.step)},
          {"eval_loss", finite_or_null(figures.eval_loss.value)},
          {"eval_step", whole_or_null(figures.eval_loss.step)},
          {"skipped_steps", run.skipped_steps},
          {"lost_steps", run.time.lost_steps},
          {"step_seconds", finite_or_null(run.step_seconds())},
          {"lost_seconds", finite_or_null(run.time.lost)},
          {"tokens_per_second", finite_or_null(figures.tokens_per_second)},
          {"goodput", finite_or_null(figures.goodput)},
          {"peak_memory_bytes", whole_or_null(figures.peak_memory_bytes)},
          {"sources", source_figures(run)}};
}

}  // namespace

RunFigures figures_of(const RunHistory& run) {
  RunFigures figures{.steps = run.loss.size()};
  figures.lowest_loss = figures.eval_loss = {kNoValue, kNoValue};
  if (!run.loss.empty()) figures.last_step = run.loss.back().step;
  for (const Point& point : run.loss) {
    if (!std::isfinite(point.value)) continue;
    if (std::isnan(figures.first_loss)) figures.first_loss = point.value;
    figures.last_loss = point.value;
    if (!(point.value >= figures.lowest_loss.value)) figures.lowest_loss = point;
  }
  for (const Point& point : run.eval_loss)
    if (std::isfinite(point.value)) figures.eval_loss = point;
  for (const Point& point : run.peak_memory_bytes)  // fmax passes over NaN
    figures.peak_memory_bytes = std::fmax(figures.peak_memory_bytes, point.value);
  if (run.step_seconds() > 0) figures.tokens_per_second = run.trained_tokens / run.step_seconds();
  if (run.step_seconds() + run.time.lost > 0) figures.goodput = run.time.share(0);
  return figures;
}

std::string figures_json(std::span<const RunHistory> runs) {
  FiguresJson json;
  json["runs"] = FiguresJson::array();
  for (const RunHistory& run : runs) {
    FiguresJson entry = run_figures(run);
    entry["differences"] = FiguresJson::array();
    if (run.config && runs[0].config)
      for (const ConfigDifference& difference : differences(*runs[0].config, *run.config))
        entry["differences"].push_back(
            {{"key", difference.key}, {"before", difference.before}, {"after", difference.after}});
    json["runs"].push_back(std::move(entry));
  }
  return json.dump() + "\n";
}

}  // namespace tessera
