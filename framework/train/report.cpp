// SPDX-License-Identifier: Apache-2.0
#include "framework/train/report.h"

#include <algorithm>

#include "framework/base/size_text.h"
#include "framework/parallel/pipeline/passes.h"
#include "framework/parallel/pipeline/schedule.h"
#include "framework/parallel/pipeline/simulate.h"
#include "framework/train/predict.h"
#include "framework/train/rank.h"
#include "framework/train/step_schedule.h"

namespace tessera {
namespace {

std::string init_text(const Init& init) {
  switch (init.kind) {
    case Init::Kind::Zeros:
      return "zeros";
    case Init::Kind::Ones:
      return "ones";
    case Init::Kind::Normal:
      break;
  }
  return fmt::format("normal({:.6g})", init.std);
}

constexpr Axis kAxes[] = {Axis::Tensor,       Axis::Sequence, Axis::Data,      Axis::Pipeline,
                          Axis::ExpertTensor, Axis::Expert,   Axis::ExpertData};

std::string axes_text(AxisSet axes) {
  std::string text;
  for (const Axis axis : kAxes)
    if (axes.contains(axis)) text += (text.empty() ? "" : "*") + std::string(name_of(axis));
  return text.empty() ? "-" : text;
}

std::string placement_text(const ShardSpec& shard) {
  std::string text;
  for (const ShardSpec::Split& split : shard.splits)
    text += fmt::format("{}dim {} over {}", text.empty() ? "" : ", ", split.dim, name_of(split.axis));
  return text.empty() ? "copies" : text;
}

// The ranks that answer for a part of the tensor in the gradient norm and in checkpoints: "0", "0,1",
// "0,1,2,... 128 ranks".
std::string owners_text(const ParameterSpec& spec, const Mesh& mesh) {
  constexpr int kMostListed = 4;
  std::string text;
  int count = 0;
  for (int rank = 0; rank < mesh.ranks(); ++rank) {
    const bool first_copy = mesh.peers(rank, copy_axes(spec.shard)).front() == rank;
    if (!first_copy || own_box(spec.shape, spec.shard, mesh, rank).elements() == 0) continue;
    if (++count <= kMostListed) text += fmt::format("{}{}", count == 1 ? "" : ",", rank);
  }
  return count <= kMostListed ? text : fmt::format("{},... {} ranks", text, count);
}

}  // namespace

std::string parameter_report(const RunConfig& config, const ModelDefinition& model) {
  const Mesh mesh = make_layout(mesh_sizes(config.parallel)).dense;
  const DType compute = compute_type(config.precision);
  std::string text =
      fmt::format("# {} ; values {}, masters {}\n", mesh.to_string(), name_of(compute), name_of(DType::F32));
  if (config.parallel.zero_stage > 0)
    text += fmt::format(
        "# ZeRO {}: each owner shares what it answers for with the ranks along sp and dp that hold the same, "
        "by "
        "flat ranges of buckets\n",
        config.parallel.zero_stage);
  text += fmt::format("{:<40} {:<16} {:<10} {:>4}  {:<18} {:<5} {:<16} {:<20} {}\n", "# name", "shape",
                      "role", "unit", "start", "decay", "placement", "gradient summed over", "owners");
  const OptimizerOptions optimizer = optimizer_options(config.optimizer);
  int64_t total = 0;
  for (const ParameterSpec& spec : model.parameters) {
    total += spec.shape.elements();
    text += fmt::format("{:<40} {:<16} {:<10} {:>4}  {:<18} {:<5g} {:<16} {:<20} {}\n", spec.name,
                        spec.shape.to_string(), name_of(spec.role), spec.unit, init_text(spec.init),
                        rates_of(optimizer, spec).weight_decay, placement_text(spec.shard),
                        spec.trainable ? axes_text(spec.shard.partial_gradient) : "frozen",
                        owners_text(spec, mesh));
  }
  return text + fmt::format("# {} parameters\n", total);
}

namespace {

// What leaves memory during a step and comes back, or nothing where nothing does.
std::string offload_text(const RunConfig& config, const StagePlan& plan, const CostModel& costs) {
  const StepSchedule options = step_schedule(config);
  const Schedule whole =
      whole_stage_schedule(options, plan, costs, static_cast<int>(config.train.gradient_accumulation_steps));
  const Simulation step = simulate(unit_schedule(plan, options, whole), costs);
  int64_t bytes = 0;
  for (const RankUse& rank : step.ranks) bytes = std::max(bytes, rank.offloaded_bytes);
  if (bytes == 0) return options.offload ? "# offload: nothing leaves\n" : "";
  return fmt::format(
      "# offload, of units: at most {} of a rank leave and come back in a step, and {} are live\n",
      bytes_text(bytes), bytes_text(step.peak_bytes()));
}

}  // namespace

std::string schedule_report(const RunConfig& config, const ModelDefinition& model) {
  const int microbatches = static_cast<int>(config.train.gradient_accumulation_steps);
  const auto ranks = static_cast<int>(config.parallel.pp);
  const StagePlan plan = stage_plan(config, model);
  const CostModel costs = stage_costs(plan, predict_unit_costs(config, model));
  const Schedule schedule = plain_schedule(step_schedule(config), plan, costs, microbatches);
  std::string text;
  for (int stage = 0; stage < plan.stages(); ++stage) {
    const auto name = [&](int unit) { return model.unit_names[static_cast<size_t>(unit)]; };
    const int first = plan.start(stage), last = first + plan.units_of(stage) - 1;
    text +=
        fmt::format("# stage {} on rank {}: {} to {}\n", stage, plan.rank_of(stage), name(first), name(last));
  }
  text += fmt::format(
      "# {} of {} micro-batches; stage, kind, micro-batch; a line a rank of the pipeline\n",
      ranks == 1 && config.parallel.schedule_text.empty() ? "one stage" : config.parallel.schedule,
      microbatches);
  text += to_text(schedule);
  if (ranks > 1) {
    const Simulation simulation = simulate(with_messages(schedule), costs);
    text += fmt::format(
        "# bubble {:.1f} % of the step, by the operations of each stage and messages that take no time\n"
        "# most live activations of a rank: {:.1f} MiB\n",
        100 * simulation.bubble(), static_cast<double>(simulation.peak_bytes()) / (1 << 20));
  }
  text += offload_text(config, plan, costs);
  // Nothing below is read back with the lists.
  text += "\n# learning rate: step, rate\n";
  const LearningRateOptions options = learning_rate_options(config);
  for (int64_t step = 0; step < config.train.steps; ++step)
    text += fmt::format("{} {}\n", step + 1, learning_rate(options, Steps(step)));
  return text;
}

}  // namespace tessera
