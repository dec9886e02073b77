// SPDX-License-Identifier: Apache-2.0
#include "framework/parallel/pipeline/executor.h"

#include "framework/base/check.h"

namespace tessera {

void Executor::run(const ExecutorRun& run) {
  std::vector<MicroBatch> states(run.batches.size());
  for (MicroBatch& state : states)
    for (size_t i = 0; i < units_.size(); ++i) state.saved.push_back(std::make_unique<Saved>());
  for (const Action& action : run.actions) {
    if (run.before) run.before(action);
    act(action, run, states.at(static_cast<size_t>(action.microbatch)));
  }
}

void Executor::act(const Action& action, const ExecutorRun& run, MicroBatch& state) {
  if (action.kind == ActionKind::ReduceGradients) {
    if (run.reduce) run.reduce(action.unit);
    return;
  }
  Context context{.backend = backend_,
                  .batch = run.batches[static_cast<size_t>(action.microbatch)],
                  .step = run.step,
                  .metrics = metrics_,
                  .mode = run.mode,
                  .loss_total = run.loss_total};
  const auto unit = static_cast<size_t>(action.unit);
  const Module& module = *units_.at(unit);
  Saved& saved = *state.saved[unit];
  // The executor's own handle goes before the call returns, so that a unit can free its input early.
  switch (action.kind) {
    case ActionKind::Forward: {
      const Tensor x = std::move(state.activation);
      state.activation = module.forward(x, saved, context);
      if (run.mode != Mode::Train) saved.clear();
      if (unit + 1 == units_.size()) state.activation = {};
      break;
    }
    case ActionKind::Backward:
      state.gradient = module.backward(std::exchange(state.gradient, {}), saved, context);
      break;
    case ActionKind::BackwardInput:
      state.gradient = module.backward_input(std::exchange(state.gradient, {}), saved, context);
      break;
    case ActionKind::BackwardWeight:
      module.backward_weight(saved, context);
      break;
    default:
      fail(ExitCode::Communication, "an executor of one rank was given {}", to_text(action));
  }
}

}  // namespace tessera
