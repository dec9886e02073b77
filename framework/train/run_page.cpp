// SPDX-License-Identifier: Apache-2.0
// The HTML of run_report.h. It is well-formed XML too, so that either kind of parser reads it.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "framework/base/markup.h"
#include "framework/train/run_report.h"

namespace tessera {
namespace {

using Runs = std::span<const RunHistory>;

constexpr const char* kPageHead = R"(<!DOCTYPE html>
<html lang="en" xmlns="http://www.w3.org/1999/xhtml">
<head>
<meta charset="utf-8"/>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'"/>
<meta name="viewport" content="width=device-width, initial-scale=1"/>
<title>Tessera report</title>
<style>
body { font-family: sans-serif; margin: 1.5em auto; max-width: 1560px; padding: 0 1em; color: #222; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; }
th, td { padding: .3em .7em; border-bottom: 1px solid #ddd; text-align: right; white-space: nowrap; }
th { white-space: normal; }
th:first-child, td:first-child, .text th, .text td { text-align: left; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 560px), 1fr)); gap: 1em; }
.charts svg { width: 100%; height: auto; border: 1px solid #ddd; }
pre { background: #f6f6f6; padding: 1em; overflow-x: auto; }
.notes { color: #666; }
</style>
</head>
<body>
<h1>Tessera report</h1>
)";

std::string cell(std::string_view text) {
  return "<td>" + escape_markup(text) + "</td>";
}

std::string heads(std::initializer_list<const char*> names) {
  std::string row = "<tr>";
  for (const char* name : names) row += fmt::format("<th>{}</th>", name);
  return row + "</tr>\n";
}

// "-" for what the run does not have.
template <class... Values>
std::string value_cell(fmt::format_string<const Values&...> format, const Values&... values) {
  return (std::isfinite(values) && ...) ? cell(fmt::format(format, values...)) : cell("-");
}

std::string summary(Runs runs) {
  std::string html =
      "<h2>Summary</h2>\n<div class=\"wide\"><table id=\"summary\">\n" +
      heads({"run", "steps", "last step", "seen tokens", "first loss", "last loss", "lowest loss",
             "eval loss", "skipped", "lost", "time in steps", "tokens/s", "goodput", "peak memory"});
  for (const RunHistory& run : runs) {
    const RunFigures f = figures_of(run);
    html += "<tr>" + cell(run.name) + cell(std::to_string(f.steps)) + value_cell("{:.0f}", f.last_step) +
            value_cell("{:.0f}", run.seen_tokens) + value_cell("{:.4f}", f.first_loss) +
            value_cell("{:.4f}", f.last_loss) +
            value_cell("{:.4f} (step {:.0f})", f.lowest_loss.value, f.lowest_loss.step) +
            value_cell("{:.4f} (step {:.0f})", f.eval_loss.value, f.eval_loss.step) +
            cell(std::to_string(run.skipped_steps)) + cell(std::to_string(run.time.lost_steps)) +
            value_cell("{:.3f} s", run.step_seconds()) + value_cell("{:.1f}", f.tokens_per_second) +
            value_cell("{:.2f} %", 100 * f.goodput) +
            value_cell("{:.1f} MiB", f.peak_memory_bytes / (1 << 20)) + "</tr>\n";
  }
  return html +
         "</table></div>\n<p class=\"notes\">Losses are means over the trained tokens of a step. Goodput is "
         "the "
         "share of the seconds of all steps, lost ones too, that trained steps which count; time outside of "
         "steps is not known here. Memory is that of the largest rank.</p>\n";
}

std::string notes(Runs runs) {
  std::string items;
  for (const RunHistory& run : runs)
    for (const std::string& note : run.notes)
      items += "<li>" + escape_markup(run.name + ": " + note) + "</li>\n";
  return items.empty() ? "" : "<ul class=\"notes\">\n" + items + "</ul>\n";
}

Chart chart_of_runs(Runs runs, std::string title, std::string unit, Series RunHistory::*series,
                    double scale = 1) {
  Chart chart{.title = std::move(title), .unit = std::move(unit), .curves = {}};
  for (size_t i = 0; i < runs.size(); ++i) {
    Curve& curve = chart.curves.emplace_back(Curve{runs[i].name, runs[i].*series, {.colour = i}});
    for (Point& point : curve.points) point.value *= scale;
  }
  return chart;
}

// A curve a source and run: colours are sources, dashes are runs.
Chart chart_of_sources(Runs runs, std::string title, std::map<std::string, Series> RunHistory::*series,
                       bool log) {
  std::set<std::string> names;
  for (const RunHistory& run : runs)
    for (const auto& [name, points] : run.*series) names.insert(name);
  Chart chart{.title = std::move(title), .unit = "", .curves = {}, .log = log};
  for (size_t i = 0; i < runs.size(); ++i)
    for (const auto& [name, points] : runs[i].*series)
      chart.curves.push_back(
          {runs.size() == 1 ? name : name + " of " + runs[i].name,
           points,
           {.colour = static_cast<size_t>(std::distance(names.begin(), names.find(name))), .dashes = i}});
  return chart;
}

std::string charts(Runs runs, bool log) {
  std::string html = "<h2>Charts</h2>\n<div class=\"charts\">\n";
  for (const Chart& chart :
       {loss_chart(runs, log), grad_norm_chart(runs),
        chart_of_runs(runs, "Learning rate", "", &RunHistory::learning_rate),
        chart_of_runs(runs, "Throughput", "tokens/s", &RunHistory::tokens_per_second),
        chart_of_runs(runs, "Peak memory of the largest rank", "MiB", &RunHistory::peak_memory_bytes,
                      1.0 / (1 << 20)),
        chart_of_sources(runs, "Loss by source", &RunHistory::source_loss, log),
        chart_of_sources(runs, "Trained tokens by source", &RunHistory::source_tokens, false)})
    if (!is_empty(chart)) html += "<div>" + to_svg(chart) + "</div>\n";
  return html + "</div>\n";
}

std::string config_differences(Runs runs) {
  std::string html;
  for (const RunHistory& run : runs.subspan(1)) {
    html += "<h3>" + escape_markup(run.name) + " beside " + escape_markup(runs[0].name) + "</h3>\n";
    if (!run.config || !runs[0].config) {
      html += "<p>Not known: one of the two has no config.toml.</p>\n";
      continue;
    }
    const auto changed = differences(*runs[0].config, *run.config);
    if (changed.empty()) {
      html += "<p>The configs are the same.</p>\n";
      continue;
    }
    html += "<table class=\"text differences\">\n" + heads({"key", "first run", "this run"});
    for (const ConfigDifference& difference : changed)
      html += "<tr>" + cell(difference.key) + cell(difference.before) + cell(difference.after) + "</tr>\n";
    html += "</table>\n";
  }
  return html.empty() ? "" : "<h2>What differs</h2>\n" + html;
}

std::string configs(Runs runs) {
  std::string html;
  for (const RunHistory& run : runs)
    if (run.config)
      html += "<details><summary>" + escape_markup(run.name) + "</summary>\n<pre>" +
              escape_markup(to_toml(*run.config)) + "</pre></details>\n";
  return html.empty() ? "" : "<h2>Configs</h2>\n" + html;
}

}  // namespace

Chart grad_norm_chart(Runs runs) {
  Chart chart = chart_of_runs(runs, "Gradient norm before clipping", "", &RunHistory::grad_norm);
  std::vector<double> norms;
  for (const Curve& curve : chart.curves)
    for (const Point& point : curve.points)
      if (std::isfinite(point.value) && point.value > 0) norms.push_back(point.value);
  if (norms.empty()) return chart;
  const auto middle = norms.begin() + static_cast<ptrdiff_t>(norms.size() / 2);
  std::nth_element(norms.begin(), middle, norms.end());
  chart.log = *std::max_element(middle, norms.end()) > 20 * *middle;
  return chart;
}

Chart loss_chart(Runs runs, bool log) {
  Chart chart = chart_of_runs(runs, "Loss", "", &RunHistory::loss);
  chart.log = log;
  for (size_t i = 0; i < runs.size(); ++i)
    if (!runs[i].eval_loss.empty())
      chart.curves.push_back(
          {runs[i].name + ": evaluation", runs[i].eval_loss, {.colour = i, .circles = true}});
  return chart;
}

std::string report_page(Runs runs, bool log) {
  return kPageHead + summary(runs) + notes(runs) + charts(runs, log) + config_differences(runs) +
         configs(runs) + "</body>\n</html>\n";
}

}  // namespace tessera
