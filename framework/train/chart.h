// SPDX-License-Identifier: Apache-2.0
// Draws curves over steps as SVG: axes with round values, a legend, and no more points than there are pixels.
#pragma once
#include <string>
#include <vector>

#include "framework/train/run_history.h"

namespace tessera {

// How a curve is told from others: a colour (colour-blind safe for the first seven), a pattern of dashes, and
// circles at its points for values that few steps have.
struct CurveStyle {
  size_t colour = 0, dashes = 0;
  bool circles = false;
};

struct Curve {
  std::string name;  // UTF-8
  Series points;
  CurveStyle style;
};

struct Chart {
  std::string title, unit;  // UTF-8; the unit stands at the vertical axis
  std::vector<Curve> curves;
  bool log = false;  // vertical axis by ratio: values that are not positive are gaps
};

bool is_empty(const Chart& chart);  // no curve has a value to show

// A whole SVG file, which may also stand as an element in an HTML page.
std::string to_svg(const Chart& chart);

// At most five points for each of `columns` equal parts of [first, last]: the first, the last, the lowest and
// the highest value, and one gap where there was one, in their order; nothing that a picture of so many
// columns would show is lost (Jugel et al., "M4: A Visualization-Oriented Time Series Data Aggregation",
// VLDB 2014). Series without more points than that are returned as they are.
Series thinned(const Series& points, double first, double last, size_t columns);

}  // namespace tessera
