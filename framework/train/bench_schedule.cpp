// SPDX-License-Identifier: Apache-2.0
#include "framework/train/bench_schedule.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "framework/backends/cpu/cpu_backend.h"
#include "framework/base/timeline.h"
#include "framework/comm/in_process/thread_ranks.h"
#include "framework/ops/memory.h"
#include "framework/parallel/pipeline/executor.h"
#include "framework/parallel/pipeline/generate.h"
#include "framework/parallel/pipeline/passes.h"
#include "framework/parallel/pipeline/simulate.h"
#include "framework/train/metrics.h"

namespace tessera {
namespace {

// A whole stage.
class SleepingStage final : public Module {
 public:
  explicit SleepingStage(const WorkCost& cost) : cost_(cost) {}

  Tensor forward(const Tensor&, Saved& saved, Context& context) const override {
    sleep(cost_.forward);
    const Tensor y = empty(context.backend, DType::F32, {1, 1});
    saved.keep(y);
    return y;
  }
  Tensor backward_input(const Tensor&, Saved&, Context& context) const override {
    sleep(cost_.backward_input);
    return empty(context.backend, DType::F32, {1, 1});
  }
  void backward_weight(Saved& saved, Context&) const override {
    sleep(cost_.backward_weight);
    saved.clear();
  }

 private:
  static void sleep(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

  const WorkCost cost_;
};

double run(const Schedule& schedule, const CostModel& costs) {
  const auto ranks = static_cast<int>(schedule.by_rank.size());
  StagePlan plan{.rank_of_stage = schedule.rank_of_stage, .first_unit = {}};
  for (int stage = 0; stage <= schedule.stages; ++stage) plan.first_unit.push_back(stage);
  const Schedule units = with_units(schedule, plan.units_of_stages());
  double seconds = 0;
  run_thread_ranks(ranks, {.patience = 60}, [&](InProcessWorld& threads, int rank) {
    const std::unique_ptr<Backend> backend = make_cpu_backend(1);
    const std::unique_ptr<Communicator> world = threads.attach(rank, *backend);
    MetricSums metrics;
    std::vector<std::unique_ptr<Module>> stages;
    for (int stage = 0; stage < schedule.stages; ++stage)
      if (plan.rank_of(stage) == rank) stages.push_back(std::make_unique<SleepingStage>(costs.of(stage, -1)));
    Executor executor(*backend, metrics, plan, {.group = world.get(), .width = 1}, std::move(stages));

    const StepInfo step{.step = Steps(1),
                        .step_number = zeros(*backend, DType::I64, {1}),
                        .loss_scale = zeros(*backend, DType::F64, {1})};
    std::vector<Batch> batches(static_cast<size_t>(schedule.microbatches));
    for (Batch& batch : batches) batch.token_index = zeros(*backend, DType::I64, {1});
    world->barrier();
    const double start = Timeline::now();
    executor.run({.actions = units.by_rank[static_cast<size_t>(rank)], .batches = batches, .step = step});
    double took[1] = {Timeline::now() - start};
    world->all_reduce_host(std::span(took), Reduce::Max);
    if (rank == 0) seconds = took[0];
  });
  return seconds;
}

}  // namespace

std::vector<ScheduleTiming> bench_schedules(const ScheduleBenchOptions& options) {
  std::vector<ScheduleTiming> timings;
  const auto costs_of = [&](int stages) {
    const int parts = stages / options.ranks;
    return equal_costs(stages, {.forward = options.forward / parts,
                                .backward_input = options.backward_input / parts,
                                .backward_weight = options.backward_weight / parts,
                                .input = 1});
  };
  const auto add = [&](std::string name, Schedule schedule) {
    const CostModel costs = costs_of(schedule.stages);
    if (options.recompute)
      schedule = with_recomputation(schedule, std::vector<bool>(static_cast<size_t>(schedule.stages), true));
    schedule = with_messages(schedule);
    timings.push_back(
        {std::move(name), schedule.stages, simulate(schedule, costs).seconds(), run(schedule, costs)});
  };
  for (const std::string_view name : schedule_names()) {
    const Schedule schedule = named_schedule(name, options.ranks, options.microbatches, 2);
    add(std::string(name), schedule);
    if (const Schedule apart = one_by_one(schedule); apart.by_rank != schedule.by_rank)
      add(std::string(name) + ", one by one", apart);
  }
  const auto found = [&](const std::vector<int>& placement) {
    const auto stages = static_cast<int>(placement.size());
    return auto_schedule(costs_of(stages), placement, options.microbatches, stages);
  };
  add("auto", found(straight_placement(options.ranks, 1)));
  add("auto on a V", found(v_placement(options.ranks)));
  return timings;
}

}  // namespace tessera
