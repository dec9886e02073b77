// SPDX-License-Identifier: Apache-2.0
#include "framework/train/step.h"

#include <algorithm>
#include <cmath>

#include "framework/ops/memory.h"
#include "framework/optim/gradient_norm.h"

namespace tessera {
namespace {

void set_double(Backend& backend, const Tensor& scalar, double value) {
  backend.upload(std::as_bytes(std::span(&value, 1)), scalar);
}

void set_int(Backend& backend, const Tensor& scalar, int64_t value) {
  backend.upload(std::as_bytes(std::span(&value, 1)), scalar);
}

bool is_backward(ActionKind kind) {
  return kind == ActionKind::Backward || kind == ActionKind::BackwardInput ||
         kind == ActionKind::BackwardWeight;
}

}  // namespace

Tensor loss_totals(Backend& backend, int64_t sources) {
  return zeros(backend, DType::F64, {sources > 1 ? 1 + sources : 1});
}

TrainStep::TrainStep(StepParts parts, StepOptions options)
    : parts_(parts),
      options_(std::move(options)),
      reducer_(parts.buffers, parts.store, parts.groups, parts.backend, options_.reduction),
      step_number_(zeros(parts.backend, DType::I64, {1})),
      loss_scale_(zeros(parts.backend, DType::F64, {1})),
      loss_total_(loss_totals(parts.backend, options_.sources)) {}

const std::vector<Action>& TrainStep::actions_for(size_t microbatches) {
  if (microbatches == planned_microbatches_) return actions_;
  const Executor& executor = parts_.executor;
  const Schedule whole = whole_stage_schedule(options_.schedule, executor.plan(), options_.costs,
                                              static_cast<int>(microbatches));
  actions_ =
      training_schedule(executor.plan(), options_.schedule, whole, executor.rank(), parts_.buffers.buckets())
          .by_rank[static_cast<size_t>(executor.rank())];
  planned_microbatches_ = microbatches;
  return actions_;
}

// What a unit computes with is in place: its values, and whole gradients to add to.
void TrainStep::prepare(const Action& action) {
  const int unit = parts_.executor.plan().start(action.stage) + action.unit;
  parts_.gatherer.wait(unit);
  if (!is_backward(action.kind) || !parts_.buffers.gradients_leave()) return;
  for (const int bucket : parts_.buffers.buckets_of_unit(unit)) parts_.buffers.hold_gradients(bucket);
}

void TrainStep::collective(const Action& action) {
  const auto unit = [&] { return parts_.executor.plan().start(action.stage) + action.unit; };
  if (action.kind == ActionKind::GatherParameters)
    parts_.gatherer.gather(unit());
  else if (action.kind == ActionKind::DropParameters)
    parts_.gatherer.drop(unit());
  else
    reducer_.start(action.unit);
}

StepResult TrainStep::run(std::span<const Batch> batches, double weight_sum, Steps step, double learning_rate,
                          UpdateWatch* watch) {
  Backend& backend = parts_.backend;
  StepResult result{.scale = parts_.scaler.scale()};
  // The only factor anywhere: the loss gradient starts as weight * scale / sum of weights.
  set_double(backend, loss_scale_, weight_sum > 0 ? result.scale / weight_sum : 0.0);
  backend.fill(loss_total_, 0);
  set_int(backend, step_number_, step.value);
  const StepInfo info{.step = step, .step_number = step_number_, .loss_scale = loss_scale_};

  parts_.buffers.clear_gradients();
  parts_.executor.run({.actions = actions_for(batches.size()),
                       .batches = batches,
                       .step = info,
                       .loss_total = loss_total_,
                       .collective = [&](const Action& action) { collective(action); },
                       .before = [&](const Action& action) { prepare(action); }});
  reducer_.finish();

  const Timeline::Scope scope(parts_.world.timeline(), Activity::Update);
  const double squares = sum_of_squares(options_.norm_shards, backend);
  std::vector<double> loss_sums = to_host<double>(backend, loss_total_);
  const bool finite = std::isfinite(squares) && std::isfinite(loss_sums[0]);
  if (!options_.counts_loss) std::fill(loss_sums.begin(), loss_sums.end(), 0.0);
  // The second number: on how many ranks something is not finite.
  std::vector<double> agreed = {squares, finite ? 0.0 : 1.0};
  agreed.insert(agreed.end(), loss_sums.begin(), loss_sums.end());
  parts_.world.all_reduce_host(std::span(agreed), Reduce::Sum);

  result.loss = weight_sum > 0 ? agreed[2] / weight_sum : 0.0;
  result.finite = agreed[1] == 0;
  result.grad_norm = std::sqrt(agreed[0]) / result.scale;
  result.source_loss_sums.assign(agreed.begin() + 3, agreed.end());
  result.updated = result.finite && weight_sum > 0;
  parts_.scaler.update(result.finite);
  if (!result.updated) return result;
  parts_.optimizer.step({.learning_rate = learning_rate,
                         .gradient_factor = clip_factor(result.grad_norm, options_.grad_clip) / result.scale,
                         .watch = watch});
  parts_.gatherer.gather_updated();
  return result;
}

std::string TrainStep::first_non_finite() const {
  for (const ParameterShard& shard : parts_.buffers.shards())
    if (!std::isfinite(sum_of_squares(std::span(&shard, 1), parts_.backend)))
      return shard.parameter->spec.name;
  return {};
}

double TrainStep::evaluate(std::span<const Batch> batches) {
  Backend& backend = parts_.backend;
  const Executor& executor = parts_.executor;
  const Tensor total = loss_totals(backend, options_.sources);
  const StepInfo info{.step = Steps(0),
                      .step_number = zeros(backend, DType::I64, {1}),
                      .loss_scale = zeros(backend, DType::F64, {1})};
  const Schedule schedule = evaluation_schedule(executor.plan(), options_.schedule.gather_parameters,
                                                static_cast<int>(batches.size()));
  parts_.executor.run({.actions = schedule.by_rank[static_cast<size_t>(executor.rank())],
                       .batches = batches,
                       .step = info,
                       .mode = Mode::Eval,
                       .loss_total = total,
                       .collective = [&](const Action& action) { collective(action); },
                       .before = [&](const Action& action) { prepare(action); }});
  return to_host<double>(backend, total)[0];
}

}  // namespace tessera
