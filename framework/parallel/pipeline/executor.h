// SPDX-License-Identifier: Apache-2.0
// Runs one rank's list of actions: one loop with one switch, for training and evaluation, one stage and many.
// Messages and collectives are started where they stand; work waits for what it needs.
#pragma once
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "framework/comm/communicator.h"
#include "framework/nn/module.h"
#include "framework/parallel/pipeline/activation_store.h"
#include "framework/parallel/pipeline/schedule.h"
#include "framework/parallel/pipeline/stages.h"

namespace tessera {

struct ExecutorRun {
  std::span<const Action> actions;  // of this rank, expanded to units
  std::span<const Batch> batches;   // one a micro-batch
  const StepInfo& step;
  Mode mode = Mode::Train;
  Tensor loss_total = {};                              // as Context::loss_total
  std::function<void(const Action&)> collective = {};  // R, T, G, D: starts it; must not block on others
  std::function<void(const Action&)> before = {};      // before work: what the unit needs is waited for
  std::function<void(const Action&)> after = {};       // after every action
};

// What a message between stages holds, and who takes part.
struct PipelineLinks {
  Communicator* group = nullptr;  // along the pipeline axis; null: one rank
  int64_t width = 0;              // of hidden states
  DType type = DType::F32;
};

// Holds this rank's stages. Between two runs it holds no activations.
class Executor {
 public:
  // `units` are those of the stages that the plan puts on this rank of the pipeline, in order. Activations
  // that leave memory go to a file in `offload_folder`, which is made when a list has such.
  Executor(Backend& backend, MetricSink& metrics, StagePlan plan, PipelineLinks links,
           std::vector<std::unique_ptr<Module>> units, std::string offload_folder = {});

  void run(const ExecutorRun& run);
  const StagePlan& plan() const { return plan_; }
  int rank() const { return links_.group == nullptr ? 0 : links_.group->rank(); }
  // Numbers, in the model, of the units here.
  const std::vector<int>& units() const { return numbers_; }
  const Module& unit(int number) const;
  // During a run: bytes of what forwards have left for their backward and is not away, and of messages that
  // have a place and are not used yet.
  int64_t live_bytes() const;
  // Of activations that have left memory, in all runs.
  int64_t offloaded_bytes() const { return store_ ? store_->written_bytes() : 0; }

 private:
  // A tensor that is here, or on its way.
  struct Arriving {
    Tensor tensor;
    Work work;
    bool received = false;  // in a message
  };
  // One micro-batch in one stage.
  struct InFlight {
    Arriving activation;                        // input of the next forward
    Arriving gradient;                          // of what the next backward starts from
    Tensor kept_input;                          // of a stage that runs again
    std::vector<std::unique_ptr<Saved>> saved;  // one a unit
  };
  // What a unit's forward has left, from its Offload to its Reload.
  struct Away {
    std::unique_ptr<Saved> saved;
    Tensor kept_input;
    ActivationStore::Parcel parcel;
    Work written;
    int64_t bytes() const { return saved->bytes() + (kept_input.defined() ? kept_input.bytes() : 0); }
  };
  InFlight& state(const Action& action) { return states_.at(place(action.stage, action.microbatch)); }
  size_t place(int stage, int microbatch) const;
  void perform(const Action& action, const ExecutorRun& run);
  // What a trace calls what starts now, or nothing.
  void name_communication(const Action* action);
  Timeline* timeline() const { return links_.group == nullptr ? nullptr : links_.group->timeline(); }
  void await_message(const Action& action);
  Work timed_transfer(Work work, const char* what, int64_t bytes);
  void offload(const Action& action);
  void give_up_what_left();
  void reload(const Action& action);
  void await_reload(const Action& action);
  Tensor take(Arriving& arriving);
  void work(std::span<const Action> step, const ExecutorRun& run);
  void compute(const Action& action, const ExecutorRun& run);
  void forward(const Action& action, const Module& module, Saved& saved, Context& context);
  void forward_again(const Action& action, const Module& module, Saved& saved, Context& context);
  void backward(const Action& action, const Module& module, Saved& saved, Context& context);
  void send(const Action& action, int to, Arriving& from);
  void receive(const Action& action, int from, Arriving& into, const Batch& batch);
  bool last_unit(const Action& action) const { return action.unit + 1 == plan_.units_of(action.stage); }

  Backend& backend_;
  MetricSink& metrics_;
  StagePlan plan_;
  PipelineLinks links_;
  std::vector<int> numbers_;
  std::vector<std::unique_ptr<Module>> units_;  // as numbers_
  std::vector<InFlight> states_;                // by stage here, then micro-batch
  size_t microbatches_ = 0;
  std::deque<Work> sends_;
  std::string offload_folder_;
  std::unique_ptr<ActivationStore> store_;  // before the works that it does
  std::map<Action, Away> away_;             // by their Reload
  std::vector<Action> leaving_;             // of these, what is being written
  std::map<Action, Work> returning_;        // by their Reload
};

}  // namespace tessera
