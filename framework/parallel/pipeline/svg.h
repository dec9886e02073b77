// SPDX-License-Identifier: Apache-2.0
// Draws what ranks did, or will do: a row a rank, time to the right, a box for each action.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "framework/parallel/pipeline/simulate.h"

namespace tessera {

// An SVG file of actions by rank, planned (Simulation::work) or measured. Colours are kinds; the boxes of a
// rank's first stage are the darker ones; a box that is wide enough carries its micro-batch. Pointing at one
// shows action, start and length in ms. At the right of a row: the share of the time that it has no box.
std::string to_svg(const std::vector<std::vector<TimedAction>>& by_rank, const std::string& title);

// Several of them, one below the other, in one measure of time.
struct Panel {
  std::string title;
  std::vector<std::vector<TimedAction>> by_rank;
};
std::string to_svg(std::span<const Panel> panels);

}  // namespace tessera
