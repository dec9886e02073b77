// SPDX-License-Identifier: Apache-2.0
#include "framework/parallel/pipeline/executor.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "framework/base/size_text.h"
#include "framework/base/turns.h"
#include "framework/comm/timed_work.h"
#include "framework/nn/recompute.h"
#include "framework/ops/memory.h"

namespace tessera {
namespace {

Action reload_of(const Action& action) {
  return {ActionKind::Reload, action.stage, action.unit, action.microbatch};
}

}  // namespace

Executor::Executor(Backend& backend, MetricSink& metrics, StagePlan plan, PipelineLinks links,
                   std::vector<std::unique_ptr<Module>> units, std::string offload_folder)
    : backend_(backend),
      metrics_(metrics),
      plan_(std::move(plan)),
      links_(links),
      units_(std::move(units)),
      offload_folder_(std::move(offload_folder)) {
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
  away_.clear();  // of a run that ended with a fault, as all of these
  leaving_.clear();
  returning_.clear();
  states_.resize(static_cast<size_t>(plan_.stages()) * microbatches_);
  // Before any work, so that a folder that does not do is found at once.
  if (!store_ && std::ranges::find(run.actions, ActionKind::Offload, &Action::kind) != run.actions.end())
    store_ = std::make_unique<ActivationStore>(backend_, offload_folder_);
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
    if (run.after)
      for (const Action& action : step) run.after(action);
    if (is_work(step.front().kind)) give_up_what_left();
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
    case ActionKind::Offload:
      return offload(action);
    case ActionKind::Reload:
      return reload(action);
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
  for (const Action& unit : leaving_) bytes += away_.at(unit).bytes();
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

Work Executor::timed_transfer(Work work, const char* what, int64_t bytes) {
  if (!timeline()) return work;
  std::string detail = timeline()->recording() ? fmt::format("store: {} {}", what, bytes_text(bytes)) : "";
  return timed(std::move(work), *timeline(), std::move(detail), Timeline::now());
}

void Executor::offload(const Action& action) {
  InFlight& flight = state(action);
  Away& away = away_[reload_of(action)];
  away.saved = std::exchange(flight.saved.at(static_cast<size_t>(action.unit)), std::make_unique<Saved>());
  std::vector<Tensor*> tensors = away.saved->slots();
  if (action.unit == 0) away.kept_input = std::exchange(flight.kept_input, {});
  if (away.kept_input.defined()) tensors.push_back(&away.kept_input);
  away.parcel = store_->write(std::move(tensors), away.written);
  away.written = timed_transfer(std::move(away.written), "write", away.parcel.bytes());
  leaving_.push_back(reload_of(action));
}

// At a fixed place of the list, the end of the work behind the offload, so that what is held does not depend
// on how quick the store is.
void Executor::give_up_what_left() {
  for (const Action& unit : leaving_) {
    Away& away = away_.at(unit);
    away.written.wait(backend_.compute_stream());
    store_->give_up(away.parcel);
  }
  leaving_.clear();
}

void Executor::reload(const Action& action) {
  const auto found = away_.find(action);
  CHECK(found != away_.end(), "{}: nothing of it is away", to_text(action));
  Away& away = found->second;
  const int64_t bytes = away.parcel.bytes();
  returning_[action] = timed_transfer(store_->read(std::move(away.parcel)), "read", bytes);
  InFlight& flight = state(action);
  flight.saved.at(static_cast<size_t>(action.unit)) = std::move(away.saved);
  if (away.kept_input.defined()) flight.kept_input = std::move(away.kept_input);
  away_.erase(found);
}

void Executor::await_reload(const Action& action) {
  const auto found = returning_.find(reload_of(action));
  if (found == returning_.end()) return;
  found->second.wait(backend_.compute_stream());
  returning_.erase(found);
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
    await_reload(action);
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
