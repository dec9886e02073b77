// SPDX-License-Identifier: Apache-2.0
#include "framework/parallel/pipeline/executor.h"

#include <optional>

#include "framework/base/turns.h"
#include "framework/nn/recompute.h"
#include "framework/ops/memory.h"

namespace tessera {

Executor::Executor(Backend& backend, MetricSink& metrics, StagePlan plan, PipelineLinks links,
                   std::vector<std::unique_ptr<Module>> units)
    : backend_(backend), metrics_(metrics), plan_(std::move(plan)), links_(links), units_(std::move(units)) {
  for (int unit = 0; unit < plan_.units(); ++unit)
    if (plan_.rank_of_unit(unit) == rank()) numbers_.push_back(unit);
  CHECK(numbers_.size() == units_.size(), "{} units were built for rank {} of the pipeline, which has {}",
        units_.size(), rank(), numbers_.size());
}

const Module& Executor::unit(int number) const {
  const auto found = std::lower_bound(numbers_.begin(), numbers_.end(), number);
  CHECK(found != numbers_.end() && *found == number, "unit {} is not on rank {} of the pipeline", number,
        rank());
  return *units_[static_cast<size_t>(found - numbers_.begin())];
}

size_t Executor::place(int stage, int microbatch) const {
  return static_cast<size_t>(stage) * microbatches_ + static_cast<size_t>(microbatch);
}

void Executor::run(const ExecutorRun& run) {
  microbatches_ = run.batches.size();
  states_.clear();
  states_.resize(static_cast<size_t>(plan_.stages()) * microbatches_);
  for (size_t i = 0, length = 1; i < run.actions.size(); i += length) {
    length = length_of_step(run.actions, i);
    const std::span<const Action> step = run.actions.subspan(i, length);
    if (is_work(step.front().kind)) {
      work(step, run);
    } else {
      name_communication(&step.front());
      perform(step.front(), run);
      name_communication(nullptr);
    }
    if (!run.after) continue;
    for (const Action& action : step) run.after(action);
  }
  while (!sends_.empty()) {
    sends_.front().wait(backend_.compute_stream());
    sends_.pop_front();
  }
  states_.clear();
}

void Executor::perform(const Action& action, const ExecutorRun& run) {
  const auto batch = [&]() -> const Batch& { return run.batches[static_cast<size_t>(action.microbatch)]; };
  switch (action.kind) {
    case ActionKind::SendActivation:
      return send(action, plan_.rank_of(action.stage + 1), state(action).activation);
    case ActionKind::SendGradient:
      return send(action, plan_.rank_of(action.stage - 1), state(action).gradient);
    case ActionKind::ReceiveActivation:
      return receive(action, plan_.rank_of(action.stage - 1), state(action).activation, batch());
    case ActionKind::ReceiveGradient:
      return receive(action, plan_.rank_of(action.stage + 1), state(action).gradient, batch());
    default:
      if (run.collective) run.collective(action);
  }
}

void Executor::name_communication(const Action* action) {
  Timeline* line = timeline();
  if (line && line->recording()) line->set_subject(action ? to_text(*action) : "");
}

int64_t Executor::live_bytes() const {
  int64_t bytes = 0;
  const auto add = [&](const Tensor& tensor) { bytes += tensor.defined() ? tensor.bytes() : 0; };
  for (const InFlight& flight : states_) {
    for (const auto& saved : flight.saved) bytes += saved->bytes();
    add(flight.kept_input);
    for (const Arriving* arriving : {&flight.activation, &flight.gradient})
      if (arriving->received) add(arriving->tensor);
  }
  return bytes;
}

// Blocked until what the action starts from is here.
void Executor::await_message(const Action& action) {
  InFlight& flight = state(action);
  Arriving& from = is_forward(action.kind) ? flight.activation : flight.gradient;
  if (!from.received) return;
  const Timeline::Scope scope(timeline(), Activity::Idle);
  from.work.wait(backend_.compute_stream());
}

Tensor Executor::take(Arriving& arriving) {
  arriving.work.wait(backend_.compute_stream());
  arriving.received = false;
  return std::exchange(arriving.tensor, {});
}

void Executor::send(const Action&, int to, Arriving& from) {
  // What has left is given up here: no more is held than the messages that are still on their way.
  while (!sends_.empty() && sends_.front().done()) {
    sends_.front().wait(backend_.compute_stream());
    sends_.pop_front();
  }
  const PeerOp operation{PeerOp::Kind::Send, to, take(from)};
  sends_.push_back(links_.group->exchange(std::span(&operation, 1), backend_.compute_stream()));
}

void Executor::receive(const Action&, int from, Arriving& into, const Batch& batch) {
  into.tensor = empty(backend_, links_.type, {batch.token_index.size(0), links_.width});
  const PeerOp operation{PeerOp::Kind::Receive, from, into.tensor};
  into.received = true;
  into.work = links_.group->exchange(std::span(&operation, 1), backend_.compute_stream());
}

// One action, or two that run together: there, too, each piece of time counts for the one whose turn it is.
void Executor::work(std::span<const Action> step, const ExecutorRun& run) {
  for (const Action& action : step) {
    if (run.before) run.before(action);
    if (is_forward(action.kind) || starts_backward(action.kind)) await_message(action);
  }
  std::optional<Timeline::Scope> scope;
  const auto begin = [&](int which) {
    scope.reset();
    scope.emplace(timeline(), run.mode == Mode::Train ? Activity::Compute : Activity::Evaluation);
    if (timeline() && timeline()->recording()) scope->set_name(to_text(step[static_cast<size_t>(which)]));
  };
  if (step.size() == 2) {
    take_turns([&] { compute(step[0], run); }, [&] { compute(step[1], run); }, begin);
  } else {
    begin(0);
    compute(step[0], run);
  }
}

void Executor::compute(const Action& action, const ExecutorRun& run) {
  InFlight& flight = state(action);
  while (flight.saved.size() < static_cast<size_t>(plan_.units_of(action.stage)))
    flight.saved.push_back(std::make_unique<Saved>());
  Context context{.backend = backend_,
                  .batch = run.batches[static_cast<size_t>(action.microbatch)],
                  .step = run.step,
                  .metrics = metrics_,
                  .mode = run.mode,
                  .loss_total = run.loss_total};
  const Module& module = unit(plan_.start(action.stage) + action.unit);
  Saved& saved = *flight.saved[static_cast<size_t>(action.unit)];
  switch (action.kind) {
    case ActionKind::Forward:
    case ActionKind::ForwardKeepingInput:
      forward(action, module, saved, context);
      break;
    case ActionKind::Recompute:
      forward_again(action, module, saved, context);
      break;
    case ActionKind::Backward:
    case ActionKind::BackwardInput:
      backward(action, module, saved, context);
      break;
    case ActionKind::BackwardWeight:
      module.backward_weight(saved, context);
      break;
    default:
      fail(ExitCode::Communication, "{} is no work", to_text(action));
  }
}

// The executor's own handle goes before the call returns, so that a unit can free its input early.
void Executor::forward(const Action& action, const Module& module, Saved& saved, Context& context) {
  InFlight& flight = state(action);
  Tensor y;
  {
    const Tensor x = take(flight.activation);
    const bool again = action.kind == ActionKind::ForwardKeepingInput;
    if (again && action.unit == 0) flight.kept_input = x;
    y = module.forward(x, saved, context);
    if (again) saved.clear_for_recompute();
  }
  if (context.mode != Mode::Train) saved.clear();
  if (!last_unit(action)) {
    flight.activation.tensor = y;
    return;
  }
  const int next = action.stage + 1;
  if (next == plan_.stages()) return;
  // A stage on the same rank takes it from there; otherwise a send does.
  InFlight& target = plan_.rank_of(next) == rank() ? states_[place(next, action.microbatch)] : flight;
  target.activation.tensor = y;
}

// The stage's input runs through it once more; the output of the last unit is not needed.
void Executor::forward_again(const Action& action, const Module& module, Saved& saved, Context& context) {
  const RecomputeScope scope(context);
  InFlight& flight = state(action);
  Tensor x = action.unit == 0 ? std::exchange(flight.kept_input, {}) : take(flight.activation);
  if (last_unit(action))
    module.forward_again(x, saved, context);
  else
    flight.activation.tensor = module.forward(std::exchange(x, {}), saved, context);
}

void Executor::backward(const Action& action, const Module& module, Saved& saved, Context& context) {
  InFlight& flight = state(action);
  Tensor dx = action.kind == ActionKind::Backward
                  ? module.backward(take(flight.gradient), saved, context)
                  : module.backward_input(take(flight.gradient), saved, context);
  if (action.unit > 0) {
    flight.gradient.tensor = std::move(dx);
    return;
  }
  const int next = action.stage - 1;
  if (next < 0) return;
  InFlight& target = plan_.rank_of(next) == rank() ? states_[place(next, action.microbatch)] : flight;
  target.gradient.tensor = std::move(dx);
}

}  // namespace tessera
