// SPDX-License-Identifier: Apache-2.0
#include "framework/parallel/pipeline/svg.h"

#include <fmt/format.h>

#include <algorithm>

#include "framework/base/markup.h"

namespace tessera {
namespace {

constexpr double kLeft = 60, kTop = 56, kWidth = 1200, kRow = 24, kBox = 20, kRight = 90;

struct Look {
  ActionKind kind;
  const char *name, *colour;
};
constexpr Look kLooks[] = {{ActionKind::Forward, "forward", "#3b76af"},
                           {ActionKind::ForwardKeepingInput, "forward keeping its input", "#3b76af"},
                           {ActionKind::Recompute, "forward again", "#8d69b8"},
                           {ActionKind::Backward, "backward", "#c53a32"},
                           {ActionKind::BackwardInput, "input gradient", "#ee8636"},
                           {ActionKind::BackwardWeight, "weight gradient", "#519e3e"},
                           {ActionKind::Offload, "offload", "#84584e"},
                           {ActionKind::Reload, "reload", "#b89c66"}};
constexpr Look kOther = {ActionKind::SendActivation, "communication", "#7f7f7f"};

const Look& look_of(ActionKind kind) {
  const auto it = std::ranges::find(kLooks, kind, &Look::kind);
  return it == std::end(kLooks) ? kOther : *it;
}

std::string label(double x, double y, const char* anchor, const std::string& text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor,
                     escape_markup(text));
}

using Rows = std::vector<std::vector<TimedAction>>;

double end_of(const Rows& by_rank) {
  double end = 0;
  for (const auto& actions : by_rank)
    for (const TimedAction& timed : actions) end = std::max(end, timed.end);
  return end;
}

double height_of(const Panel& panel) {
  return kTop + kRow * static_cast<double>(panel.by_rank.size()) + 24;
}

// One panel, from `top` down; its time ends at `end` and `scale` units of width are a second.
class Drawing {
 public:
  Drawing(const Panel& panel, double top, double end, double scale)
      : panel_(panel), top_(top), end_(end), scale_(scale), own_end_(end_of(panel.by_rank)) {
    for (const auto& actions : panel.by_rank)
      for (const TimedAction& timed : actions)
        if (std::ranges::find(used_, &look_of(timed.action.kind)) == used_.end())
          used_.push_back(&look_of(timed.action.kind));
  }

  std::string text() const {
    std::string svg = label(kLeft, top_ + 18, "start", panel_.title) + legend();
    for (size_t rank = 0; rank < panel_.by_rank.size(); ++rank) svg += row(rank);
    for (int tick = 0; tick <= 4; ++tick)
      svg += label(kLeft + kWidth * tick / 4, top_ + height_of(panel_) - 8, "middle",
                   fmt::format("{:.4g} ms", 250 * tick * end_));
    return svg;
  }

 private:
  std::string legend() const {
    std::string svg;
    double x = kLeft;
    for (const Look* look : used_) {
      svg += fmt::format("<rect x=\"{:.1f}\" y=\"{:.0f}\" width=\"12\" height=\"12\" fill=\"{}\"/>\n", x,
                         top_ + 28, look->colour);
      svg += label(x + 16, top_ + 38, "start", look->name);
      x += 180;
    }
    return svg;
  }

  std::string row(size_t rank) const {
    const double y = top_ + kTop + kRow * static_cast<double>(rank);
    std::string svg = label(kLeft - 8, y + 14, "end", fmt::format("rank {}", rank));
    const auto& actions = panel_.by_rank[rank];
    if (actions.empty()) return svg;
    const int first_stage =
        std::ranges::min(actions, {}, [](const TimedAction& t) { return t.action.stage; }).action.stage;
    double busy = 0;
    for (const TimedAction& timed : actions) {
      busy += timed.end - timed.start;
      svg += box(timed, y, timed.action.stage == first_stage);
    }
    return svg + label(kLeft + kWidth + 8, y + 14, "start",
                       fmt::format("idle {:.1f} %", 100 * (1 - busy / own_end_)));
  }

  std::string box(const TimedAction& timed, double y, bool first) const {
    const double x = kLeft + timed.start * scale_, width = (timed.end - timed.start) * scale_;
    std::string svg = fmt::format(
        "<rect class=\"action\" x=\"{:.2f}\" y=\"{:.0f}\" width=\"{:.2f}\" height=\"{:.0f}\" fill=\"{}\" "
        "fill-opacity=\"{}\" stroke=\"white\" stroke-width=\"0.3\"><title>{}: at {:.4g} ms, {:.4g} "
        "ms</title></rect>\n",
        x, y, width, kBox, look_of(timed.action.kind).colour, first ? "1" : "0.6", to_text(timed.action),
        1e3 * timed.start, 1e3 * (timed.end - timed.start));
    const std::string number = std::to_string(timed.action.microbatch);
    if (width > 7.0 * static_cast<double>(number.size()) + 2)
      svg += label(x + width / 2, y + 14, "middle", number);
    return svg;
  }

  const Panel& panel_;
  const double top_, end_, scale_, own_end_;
  std::vector<const Look*> used_;
};

}  // namespace

std::string to_svg(const Rows& by_rank, const std::string& title) {
  const Panel panel{title, by_rank};
  return to_svg(std::span(&panel, 1));
}

std::string to_svg(std::span<const Panel> panels) {
  double height = 0, end = 0;
  for (const Panel& panel : panels) {
    height += height_of(panel);
    end = std::max(end, end_of(panel.by_rank));
  }
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} "
      "{1:.0f}\" font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" "
      "fill=\"white\"/>\n",
      kLeft + kWidth + kRight, height);
  double top = 0;
  for (const Panel& panel : panels) {
    svg += Drawing(panel, top, end, end > 0 ? kWidth / end : 0).text();
    top += height_of(panel);
  }
  return svg + "</svg>\n";
}

}  // namespace tessera
