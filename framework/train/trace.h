// SPDX-License-Identifier: Apache-2.0
// A step as it really went: what each rank's timeline recorded, as a file for chrome://tracing and Perfetto,
// as a drawing beside the plan, and as a table.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "framework/base/quantity.h"
#include "framework/base/timeline.h"
#include "framework/comm/communicator.h"
#include "framework/parallel/pipeline/simulate.h"
#include "framework/train/clock_offset.h"

namespace tessera {

struct RankTrace {
  std::string place = {};     // on the mesh, for people
  double start = 0, end = 0;  // of the step; all times on the clock of rank 0
  double clock_error = 0;     // at most, in seconds
  ActivityTimes times{};      // of the step, seconds
  std::vector<Timeline::Span> spans = {};
};

// Collective. Brings every rank's trace to all, in rank order, on one clock.
std::vector<RankTrace> gather_traces(Communicator& world, RankTrace own, const ClockOffset& clock);

// Trace Event Format: one process a rank (pid: rank + 1), one row for its own thread (tid: pid) and as many
// for communication as go on at once, whose numbers stand for no other rank. Times start at the earliest step
// start.
std::string to_chrome_json(std::span<const RankTrace> traces, Steps step);

// The work among the spans, in order, from the start of the earliest step. Units of one stage and micro-batch
// that follow each other are one action.
std::vector<std::vector<TimedAction>> measured_work(std::span<const RankTrace> traces);

// Seconds of each stage's work: means over the micro-batches of what was measured. A backward that was not
// taken apart counts as one of the input.
CostModel measured_costs(const std::vector<std::vector<TimedAction>>& work, int stages);

// The order of `plain` as the measured work would run without anything to wait for but other stages, above
// the same ranks as they ran. `traces` are those of one pipeline, in its order.
std::string to_svg(std::span<const RankTrace> traces, const Schedule& plain, Steps step);

// A row a rank: the bubble, which is the share of the time from the first work of any rank to the last in
// which it has none; shares of the step; and of its communication what went on under its work.
std::string to_table(std::span<const RankTrace> traces);

// Share of communication beside the work during which the rank's own thread computed; 1 where there was none.
double overlap(const RankTrace& trace);

}  // namespace tessera
