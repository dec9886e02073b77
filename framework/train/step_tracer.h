// SPDX-License-Identifier: Apache-2.0
// Traces the steps that logging.trace names: records a rank's timeline while they run, then writes
// trace/step_N.json and trace/step_N.svg in the run's folder and the table to the log.
#pragma once
#include <filesystem>
#include <optional>

#include "framework/base/log.h"
#include "framework/train/rank.h"
#include "framework/train/trace.h"

namespace tessera {

class StepTracer {
 public:
  // All outlive the tracer.
  StepTracer(const RunConfig& config, Timeline& timeline, Log& log)
      : config_(config), timeline_(timeline), log_(log) {}

  // Before the first thing that a step does.
  void begin(Steps step);
  // After its last. Collective when the step is traced; rank 0 writes.
  void end(Rank& rank, Steps step);
  // The step will not run.
  void cancel();

 private:
  void write(const Rank& rank, std::span<const RankTrace> traces, Steps step) const;

  const RunConfig& config_;
  Timeline& timeline_;
  Log& log_;
  bool traced_ = false;
  double start_ = 0;
  ActivityTimes before_{};
  std::optional<ClockOffset> clock_;  // of this step
};

}  // namespace tessera
