// SPDX-License-Identifier: Apache-2.0
#include "framework/train/chart.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "framework/base/markup.h"
#include "framework/train/chart_scale.h"

namespace tessera {
namespace {

constexpr double kPlotLeft = 84, kPlotTop = 40, kPlotWidth = 640, kPlotHeight = 260, kPlotRight = 20;
constexpr double kAxisRoom = 44, kLegendRow = 18;

// Okabe and Ito, "Color Universal Design" (2008), without their yellow, which is weak on white.
constexpr std::array kCurveColours = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                      "#e69f00", "#56b4e9", "#000000"};
constexpr std::array kDashPatterns = {"", "6 3", "2 3", "8 3 2 3"};

std::string stroke(const CurveStyle& style) {
  std::string text =
      fmt::format("stroke=\"{}\" fill=\"none\" stroke-width=\"{}\" stroke-linecap=\"round\"",
                  kCurveColours[style.colour % kCurveColours.size()], style.circles ? 0.8 : 1.5);
  // A run beyond the colours has another pattern than the one that its colour is of.
  const size_t dashes = (style.dashes + style.colour / kCurveColours.size()) % kDashPatterns.size();
  if (dashes > 0) text += fmt::format(" stroke-dasharray=\"{}\"", kDashPatterns[dashes]);
  return text;
}

std::string text_at(double x, double y, const char* attributes, std::string_view text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" {}>{}</text>\n", x, y, attributes, escape_markup(text));
}

struct ValueRange {
  double low = 0, high = 0;
  bool any = false;

  void add(double value) {
    low = any ? std::min(low, value) : value;
    high = any ? std::max(high, value) : value;
    any = true;
  }
};

class ChartDrawing {
 public:
  explicit ChartDrawing(const Chart& chart) : chart_(chart) {
    ValueRange steps, values;
    for (const Curve& curve : chart.curves)
      for (const Point& point : curve.points) {
        if (can_show(point.step, false)) steps.add(point.step);
        if (can_show(point.value, chart.log)) values.add(point.value);
      }
    first_ = steps.low;
    last_ = steps.high;
    // A positive low on an empty chart: any axis will do.
    x_ = AxisScale(first_, last_, false);
    y_ = values.any ? AxisScale(values.low, values.high, chart.log) : AxisScale(1, 2, chart.log);
  }

  std::string text() const {
    const double legend = kLegendRow * static_cast<double>(chart_.curves.size());
    const double height = kPlotTop + kPlotHeight + kAxisRoom + legend + 6;
    std::string svg = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 "
        "{0:.0f} "
        "{1:.0f}\" font-family=\"sans-serif\" font-size=\"12\" role=\"img\">\n"
        "<title>{2}</title>\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
        kPlotLeft + kPlotWidth + kPlotRight, height, escape_markup(chart_.title));
    svg += text_at(kPlotLeft, 24, "font-size=\"15\" font-weight=\"bold\"",
                   chart_.title + (chart_.unit.empty() ? "" : " (" + chart_.unit + ")"));
    svg += axes();
    for (const Curve& curve : chart_.curves) svg += drawn(curve);
    for (size_t i = 0; i < chart_.curves.size(); ++i) svg += legend_row(i);
    return svg + "</svg>\n";
  }

 private:
  double x_of(double step) const { return kPlotLeft + kPlotWidth * x_.place(step); }
  double y_of(double value) const { return kPlotTop + kPlotHeight * (1 - y_.place(value)); }

  std::string axes() const {
    std::string svg = "<g stroke=\"#dddddd\">\n", labels;
    for (const Tick& tick : y_.ticks(6)) {
      const double y = y_of(tick.value);
      svg += fmt::format("<line x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.2f}\" y2=\"{:.2f}\"/>\n", kPlotLeft,
                         kPlotLeft + kPlotWidth, y, y);
      labels += fmt::format(
          "<text class=\"y-tick\" x=\"{:.1f}\" y=\"{:.2f}\" dy=\"4\" text-anchor=\"end\">{}</text>\n",
          kPlotLeft - 8, y, tick.label);
    }
    // There is no step between two: of a short run the axis names whole ones only.
    for (const Tick& tick : x_.ticks(8)) {
      if (tick.value != std::floor(tick.value)) continue;
      labels +=
          fmt::format("<text class=\"x-tick\" x=\"{:.2f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>\n",
                      x_of(tick.value), kPlotTop + kPlotHeight + 18, tick.label);
    }
    svg += fmt::format(
        "</g>\n<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"none\" stroke=\"#888888\"/>\n",
        kPlotLeft, kPlotTop, kPlotWidth, kPlotHeight);
    return svg + labels +
           text_at(kPlotLeft + kPlotWidth / 2, kPlotTop + kPlotHeight + 36, "text-anchor=\"middle\"", "step");
  }

  std::string drawn(const Curve& curve) const {
    Series shown = curve.points;
    for (Point& point : shown)
      if (!can_show(point.value, chart_.log)) point.value = kNoValue;
    std::string path, circles;
    bool pen_down = false;
    for (const Point& point : thinned(shown, first_, last_, static_cast<size_t>(kPlotWidth))) {
      if (std::isnan(point.value)) {
        pen_down = false;
        continue;
      }
      const std::string place = fmt::format("{:.2f} {:.2f}", x_of(point.step), y_of(point.value));
      // A line of no length is a dot: what a value between two gaps looks like.
      path += pen_down ? "L" + place : "M" + place + "L" + place;
      pen_down = true;
      if (curve.style.circles)
        circles += fmt::format("<circle cx=\"{:.2f}\" cy=\"{:.2f}\" r=\"3\" fill=\"white\"/>\n",
                               x_of(point.step), y_of(point.value));
    }
    return fmt::format("<g class=\"curve\" {}><title>{}</title>\n<path d=\"{}\"/>\n{}</g>\n",
                       stroke(curve.style), escape_markup(curve.name), path, circles);
  }

  std::string legend_row(size_t index) const {
    const Curve& curve = chart_.curves[index];
    const double y = kPlotTop + kPlotHeight + kAxisRoom + kLegendRow * (static_cast<double>(index) + 0.5);
    std::string svg = fmt::format("<g {}><line x1=\"{}\" x2=\"{}\" y1=\"{}\" y2=\"{}\"/>",
                                  stroke(curve.style), kPlotLeft, kPlotLeft + 32, y, y);
    if (curve.style.circles)
      svg += fmt::format("<circle cx=\"{}\" cy=\"{}\" r=\"3\" fill=\"white\"/>", kPlotLeft + 16, y);
    return svg + "</g>\n" + text_at(kPlotLeft + 40, y + 4, "class=\"legend\"", curve.name);
  }

  const Chart& chart_;
  double first_ = 0, last_ = 0;
  AxisScale x_, y_;
};

// Indices of the points [begin, end) of one column that must stay.
std::set<size_t> kept_of_column(const Series& points, size_t begin, size_t end) {
  std::set<size_t> kept;
  constexpr size_t kNone = static_cast<size_t>(-1);
  size_t first = kNone, last = kNone, low = kNone, high = kNone, gap = kNone;
  for (size_t i = begin; i < end; ++i) {
    if (std::isnan(points[i].value)) {
      if (gap == kNone) gap = i;
      continue;
    }
    if (first == kNone) first = low = high = i;
    last = i;
    if (points[i].value < points[low].value) low = i;
    if (points[i].value > points[high].value) high = i;
  }
  for (const size_t index : {first, last, low, high, gap})
    if (index != kNone) kept.insert(index);
  return kept;
}

}  // namespace

bool is_empty(const Chart& chart) {
  return std::ranges::none_of(chart.curves, [&](const Curve& curve) {
    return std::ranges::any_of(curve.points,
                               [&](const Point& point) { return can_show(point.value, chart.log); });
  });
}

std::string to_svg(const Chart& chart) {
  return ChartDrawing(chart).text();
}

Series thinned(const Series& points, double first, double last, size_t columns) {
  if (points.size() <= 5 * columns || last <= first) return points;
  const auto column_of = [&](const Point& point) {
    const double share = std::clamp((point.step - first) / (last - first), 0.0, 1.0);
    return static_cast<size_t>(share * static_cast<double>(columns - 1));
  };
  Series result;
  for (size_t begin = 0, end = 0; begin < points.size(); begin = end) {
    while (end < points.size() && column_of(points[end]) == column_of(points[begin])) ++end;
    for (const size_t index : kept_of_column(points, begin, end)) result.push_back(points[index]);
  }
  return result;
}

}  // namespace tessera
