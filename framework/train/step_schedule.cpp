// SPDX-License-Identifier: Apache-2.0
#include "framework/train/step_schedule.h"

#include <algorithm>

#include "framework/parallel/pipeline/generate.h"
#include "framework/parallel/pipeline/passes.h"
#include "framework/parallel/pipeline/simulate.h"
#include "framework/parallel/pipeline/stage_split.h"
#include "framework/parallel/pipeline/validate.h"
#include "framework/train/predict.h"
#include "framework/train/schedule_file.h"

namespace tessera {
namespace {

constexpr int kPrefetchedUnits = 1;

// The work of each unit on a token: multiplications by its matrices. A table lookup is next to nothing.
std::vector<double> unit_costs(const ModelDefinition& model) {
  std::vector<double> costs(static_cast<size_t>(model.unit_count()), 1.0);
  for (const ParameterSpec& spec : model.parameters) {
    const auto elements = static_cast<double>(spec.shape.elements());
    if (spec.role == Role::Matrix) costs[static_cast<size_t>(spec.unit)] += elements;
    if (spec.second_unit) costs[static_cast<size_t>(*spec.second_unit)] += elements;
  }
  return costs;
}

// The numbers, in `buckets`, of the untied buckets of each stage, in their order.
std::vector<std::vector<int>> buckets_of_stages(const StagePlan& plan, std::span<const Bucket> buckets) {
  std::vector<std::vector<int>> of_stage(static_cast<size_t>(plan.stages()));
  for (size_t i = 0; i < buckets.size(); ++i)
    if (!buckets[i].tied && buckets[i].elements > 0)
      of_stage[static_cast<size_t>(buckets[i].stage)].push_back(static_cast<int>(i));
  return of_stage;
}

// Between its input and its weight gradient a stage may keep more than before, the gradient of its output: it
// counts for its most from forward to weight gradient, so that a bound holds at every moment.
CostModel at_their_largest(const CostModel& costs) {
  std::vector<std::vector<WorkCost>> stages;
  for (int stage = 0; stage < costs.stages(); ++stage) {
    WorkCost cost = costs.of(stage, -1);
    cost.saved = cost.saved_for_weight = std::max(cost.saved, cost.saved_for_weight);
    stages.push_back({cost});
  }
  return CostModel(std::move(stages));
}

}  // namespace

ZeroPlan zero_plan(const ParallelSection& parallel) {
  const int64_t sharing = parallel.zero_shard_size.value_or(parallel.dp * parallel.sp);
  if (parallel.zero_stage == 0 || sharing == 1) return {};
  const auto stage = static_cast<ZeroStage>(parallel.zero_stage);
  return {.stage = stage,
          .shards = static_cast<int>(sharing),
          .gradients_leave = stage >= ZeroStage::Gradients &&
                             parallel.zero_reduce == ParallelSection::ZeroReduce::Microbatch};
}

StepSchedule step_schedule(const RunConfig& config) {
  const ZeroPlan zero = zero_plan(config.parallel);
  return {
      .form = config.parallel.schedule,
      .text = config.parallel.schedule_text,
      .virtual_stages = static_cast<int>(config.parallel.virtual_stages),
      .together = config.parallel.tp > 1 ||
                  (config.parallel.sp > 1 && config.parallel.sp_mode != ParallelSection::SequenceMode::Ring),
      .live_activations = static_cast<int>(config.parallel.live_activations.value_or(config.parallel.pp)),
      .recompute_stages = config.activation_checkpointing.mode == ActivationCheckpointingSection::Mode::Stage,
      .offload = config.activation_checkpointing.offload,
      .gather_parameters = zero.stage == ZeroStage::Parameters,
      .reduce_every_microbatch = zero.gradients_leave};
}

StagePlan stage_plan(const RunConfig& config, const ModelDefinition& model) {
  const ParallelSection& parallel = config.parallel;
  const StepSchedule options = step_schedule(config);
  const auto ranks = static_cast<int>(parallel.pp);
  const auto microbatches = static_cast<int>(config.train.gradient_accumulation_steps);
  const int blocks = model.unit_count() - 2;
  const auto plan_of = [&](std::vector<int> rank_of_stage) {
    const auto stages = static_cast<int>(rank_of_stage.size());
    const std::vector<int> layout = parallel.stage_layout.empty()
                                        ? split_by_cost(unit_costs(model), rank_of_stage)
                                        : split_from_text(parallel.stage_layout, stages, blocks);
    return make_stage_plan(std::move(rank_of_stage), layout);
  };
  if (!options.text.empty())
    return plan_of(schedule_of_file(options.form, options.text, ranks, microbatches).rank_of_stage);
  if (ranks == 1) return plan_of(straight_placement(1, 1));
  if (options.form != "auto")
    return plan_of(named_schedule(options.form, ranks, 1, options.virtual_stages).rank_of_stage);

  const StagePlan straight = plan_of(straight_placement(ranks, 1));
  if (blocks < 2 * ranks || !parallel.stage_layout.empty()) return straight;
  const StagePlan v = plan_of(v_placement(ranks));
  const std::vector<WorkCost> of_units = predict_unit_costs(config, model);
  const auto seconds = [&](const StagePlan& plan) {
    const CostModel costs = stage_costs(plan, of_units);
    return simulate(plain_schedule(options, plan, costs, microbatches), costs).seconds();
  };
  // A V sends twice as many messages, which cost nothing in the estimate.
  constexpr double kWorthwhile = 0.99;
  return seconds(v) < kWorthwhile * seconds(straight) ? v : straight;
}

CostModel stage_costs(const StagePlan& plan, std::span<const WorkCost> unit_costs) {
  std::vector<std::vector<WorkCost>> of_stage(static_cast<size_t>(plan.stages()));
  for (int unit = 0; unit < plan.units(); ++unit)
    of_stage[static_cast<size_t>(plan.stage_of(unit))].push_back(unit_costs[static_cast<size_t>(unit)]);
  return CostModel(std::move(of_stage));
}

CostModel step_costs(const RunConfig& config, const StagePlan& plan, const ModelDefinition& model) {
  const ParallelSection& parallel = config.parallel;
  const bool needed = plan.ranks() > 1 && parallel.schedule == "auto" && parallel.schedule_text.empty();
  return needed ? stage_costs(plan, predict_unit_costs(config, model)) : CostModel({});
}

Schedule plain_schedule(const StepSchedule& options, const StagePlan& plan, const CostModel& costs,
                        int microbatches) {
  const int ranks = plan.ranks();
  if (!options.text.empty()) return schedule_of_file(options.form, options.text, ranks, microbatches);
  // One rank has nobody to wait for: any order is as good, and this keeps one micro-batch at a time.
  if (ranks == 1) return one_forward_one_backward(1, microbatches);
  if (options.form != "auto") {
    // A forward and a backward that wait for both their inputs lengthen the bubble: for nothing, if neither
    // ever waits for a collective.
    Schedule schedule = named_schedule(options.form, ranks, microbatches, options.virtual_stages);
    return options.together ? schedule : one_by_one(std::move(schedule));
  }

  const CostModel most = at_their_largest(costs);
  std::vector<int64_t> saved(static_cast<size_t>(ranks), 0);
  for (int stage = 0; stage < plan.stages(); ++stage)
    saved[static_cast<size_t>(plan.rank_of(stage))] += most.of(stage, -1).saved;
  return auto_schedule(most, plan.rank_of_stage, microbatches,
                       options.live_activations * std::ranges::max(saved));
}

Schedule whole_stage_schedule(const StepSchedule& options, const StagePlan& plan, const CostModel& costs,
                              int microbatches) {
  const Schedule plain = plain_schedule(options, plan, costs, microbatches);
  if (!options.recompute_stages) return plain;
  return with_recomputation(plain, std::vector<bool>(static_cast<size_t>(plan.stages()), true));
}

Schedule unit_schedule(const StagePlan& plan, const StepSchedule& options, const Schedule& whole) {
  const Schedule schedule = with_units(with_messages(whole), plan.units_of_stages());
  const auto has_transfers = [](const std::vector<Action>& actions) {
    return std::ranges::any_of(actions, is_transfer, &Action::kind);
  };
  if (!options.offload || std::ranges::any_of(schedule.by_rank, has_transfers)) return schedule;
  return with_offload(schedule);
}

Schedule training_schedule(const StagePlan& plan, const StepSchedule& options, const Schedule& whole,
                           int rank, std::span<const Bucket> buckets) {
  const std::vector<std::vector<int>> of_stage = buckets_of_stages(plan, buckets);
  ValidationSizes sizes{.units_of_stage = plan.units_of_stages()};
  for (const std::vector<int>& numbers : of_stage) {
    std::vector<int>& first_units = sizes.bucket_first_unit.emplace_back();
    for (const int number : numbers) {
      const Bucket& bucket = buckets[static_cast<size_t>(number)];
      first_units.push_back(bucket.first_unit - plan.start(bucket.stage));
    }
  }
  std::vector<int> tied;
  for (size_t i = 0; i < buckets.size(); ++i)
    if (buckets[i].tied) tied.push_back(static_cast<int>(i));
  // A tied tensor is the token table: of the first unit and of the last.
  const int last = plan.stages() - 1;
  for (size_t i = 0; i < tied.size(); ++i) sizes.tied.push_back({{0, 0}, {last, plan.units_of(last) - 1}});

  Schedule schedule = unit_schedule(plan, options, whole);
  if (options.gather_parameters) {
    schedule = with_parameter_gathers(schedule, kPrefetchedUnits);
    sizes.gathered_units = 1 + kPrefetchedUnits;
  }
  if (options.reduce_every_microbatch) sizes.reductions = Reductions::EveryMicrobatch;
  schedule = with_gradient_reduction(schedule, sizes.bucket_first_unit, sizes.tied, sizes.reductions);
  validate(schedule, sizes);

  std::vector<Action>& actions = schedule.by_rank.at(static_cast<size_t>(rank));
  for (Action& action : actions) {
    if (action.kind == ActionKind::ReduceGradients)
      action.unit = of_stage[static_cast<size_t>(action.stage)][static_cast<size_t>(action.unit)];
    if (action.kind == ActionKind::ReduceTied) action.unit = tied[static_cast<size_t>(action.unit)];
  }
  return schedule;
}

Schedule evaluation_schedule(const StagePlan& plan, bool gather_parameters, int microbatches) {
  Schedule schedule{.stages = plan.stages(),
                    .microbatches = microbatches,
                    .rank_of_stage = plan.rank_of_stage,
                    .by_rank = std::vector<std::vector<Action>>(static_cast<size_t>(plan.ranks()))};
  for (int m = 0; m < microbatches; ++m)
    for (int stage = 0; stage < plan.stages(); ++stage)
      schedule.by_rank[static_cast<size_t>(plan.rank_of(stage))].push_back(
          {ActionKind::Forward, stage, -1, m});
  schedule = with_units(with_messages(schedule), plan.units_of_stages());
  if (gather_parameters) schedule = with_parameter_gathers(schedule, kPrefetchedUnits);
  validate(schedule, {.units_of_stage = plan.units_of_stages(),
                      .forward_only = true,
                      .gathered_units = gather_parameters ? 1 + kPrefetchedUnits : 0});
  return schedule;
}

}  // namespace tessera
