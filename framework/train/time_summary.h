// SPDX-License-Identifier: Apache-2.0
// Where the time of a run went, said at its end.
#pragma once
#include <filesystem>
#include <span>
#include <string>

#include "framework/base/log.h"
#include "framework/base/timeline.h"
#include "framework/comm/communicator.h"
#include "framework/train/run_folder.h"

namespace tessera {

// Seconds that trained: those of the steps in metrics.jsonl whose update was made, of those that a crash
// undid (metrics.lost.jsonl) and of those that were skipped.
struct Goodput {
  double kept = 0, lost = 0, skipped = 0;
  int64_t kept_steps = 0, lost_steps = 0;

  // Share of the wall time that trained steps which count. `outside`: seconds of this process, the only one
  // whose are known, that were spent outside of steps.
  double share(double outside) const;
};
// Lines that cannot be read, as a crash leaves them, count as nothing.
Goodput read_goodput(const std::filesystem::path& metrics, const std::filesystem::path& lost);

// "12.300 s of 2 ranks: compute 61.0 % (7.5030 s; 7.1000 to 7.9060), ...": mean, least and most of the ranks.
std::string to_line(std::span<const ActivityTimes> ranks);

// Collective. The first rank says both, and goodput of the run in `folder`, in the log. `own`: of this rank,
// since the process began; `in_steps`: of these, seconds that step_seconds of the metrics count.
void report_time(Communicator& world, Log& log, const RunFolder& folder, const ActivityTimes& own,
                 double in_steps);

}  // namespace tessera
