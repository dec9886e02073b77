// SPDX-License-Identifier: Apache-2.0
#include "framework/train/step_tracer.h"

#include <algorithm>

#include "framework/checkpoint/agree.h"
#include "framework/train/run_folder.h"

namespace tessera {
namespace {

// "tp 0, pp 1": the axes of more than one rank.
std::string place_text(const Mesh& mesh, int rank) {
  std::string text;
  for (const Axis axis : {Axis::Tensor, Axis::Sequence, Axis::Data, Axis::Pipeline})
    if (mesh.size(axis) > 1)
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name_of(axis), mesh.coordinate(rank, axis));
  return text.empty() ? "alone" : text;
}

}  // namespace

void StepTracer::begin(Steps step) {
  traced_ = std::ranges::count(config_.logging.trace, step.value) > 0;
  if (!traced_) return;
  timeline_.record(true);
  before_ = timeline_.totals();
  start_ = Timeline::now();
}

void StepTracer::cancel() {
  traced_ = false;
  timeline_.record(false);
  (void)timeline_.take_spans();
}

void StepTracer::end(Rank& rank, Steps step) {
  if (!traced_) return;
  RankTrace own{
      .place = place_text(rank.layout().dense, rank.number()), .start = start_, .end = Timeline::now()};
  const ActivityTimes totals = timeline_.totals();
  for (size_t a = 0; a < kActivities; ++a) own.times[a] = totals[a] - before_[a];
  own.spans = timeline_.take_spans();
  cancel();
  const ClockOffset clock = measure_clock_offset(rank.world());
  const std::vector<RankTrace> traces = gather_traces(rank.world(), std::move(own), clock);
  agree(rank.world(), [&] {
    if (rank.number() == 0) write(rank, traces, step);
  });
}

void StepTracer::write(const Rank& rank, std::span<const RankTrace> traces, Steps step) const {
  const std::filesystem::path folder = std::filesystem::path(config_.run.output_dir) / "trace";
  std::filesystem::create_directories(folder);
  const std::string name = fmt::format("step_{:08}", step.value);
  write_file_atomically(folder / (name + ".json"), to_chrome_json(traces, step));

  std::vector<RankTrace> pipeline;
  for (const int peer : rank.layout().dense.peers(0, {Axis::Pipeline}))
    pipeline.push_back(traces[static_cast<size_t>(peer)]);
  const StepSchedule options = step_schedule(config_);
  const StagePlan plan = stage_plan(config_, rank.model());
  const Schedule schedule = whole_stage_schedule(options, plan, step_costs(config_, plan, rank.model()),
                                                 static_cast<int>(config_.train.gradient_accumulation_steps));
  write_file_atomically(folder / (name + ".svg"), to_svg(pipeline, schedule, step));
  log_.info(
      fmt::format("step {} is traced in {}\n{}", step.value, (folder / name).string(), to_table(traces)));
}

}  // namespace tessera
