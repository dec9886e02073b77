// SPDX-License-Identifier: Apache-2.0
// What the simulator says of memory is what happens: on two ranks with real work, the most bytes that
// forwards leave and messages hold is the simulated one to the byte, for every schedule, with recomputation
// and without, with activations that leave and without.
#include <gtest/gtest.h>

#include <mutex>

#include "framework/ops/memory.h"
#include "framework/parallel/pipeline/generate.h"
#include "framework/parallel/pipeline/passes.h"
#include "framework/parallel/pipeline/simulate.h"
#include "framework/parallel/pipeline/validate.h"
#include "tests/support/parity_data.h"

namespace tessera::test {
namespace {

constexpr int kRanks = 2, kMicrobatches = 5;

struct StepStart {
  explicit StepStart(Rank& rank, const RunConfig& config)
      : backend(rank.backend()),
        info{.step = Steps(1),
             .step_number = zeros(backend, DType::I64, {1}),
             .loss_scale = zeros(backend, DType::F64, {1})},
        loss_total(zeros(backend, DType::F64, {1})) {
    DataFeed data(config, rank.data_rank());
    for (const HostBatch& host : data.next().microbatches) batches.push_back(rank.upload(host));
  }
  Backend& backend;
  StepInfo info;
  Tensor loss_total;
  std::vector<Batch> batches;
};

// The bytes of each unit's work, measured unit by unit on one rank.
std::vector<WorkCost> measured_units(const RunConfig& config) {
  std::vector<WorkCost> units;
  const auto measure = [&](Rank& rank) {
    StepStart start(rank, config);
    Context context{.backend = start.backend,
                    .batch = start.batches[0],
                    .step = start.info,
                    .metrics = rank.observed(),
                    .loss_total = start.loss_total};
    const std::vector<int>& numbers = rank.executor().units();
    std::vector<Saved> saved(numbers.size());
    Tensor x;
    for (const int unit : numbers) {
      const int64_t input = x.defined() ? x.bytes() : 0;
      x = rank.executor().unit(unit).forward(x, saved[static_cast<size_t>(unit)], context);
      units.push_back({.saved = saved[static_cast<size_t>(unit)].bytes(), .input = input});
    }
    Tensor dx;
    for (size_t i = numbers.size(); i-- > 0;) {
      dx = rank.executor().unit(numbers[i]).backward_input(dx, saved[i], context);
      units[i].saved_for_weight = saved[i].bytes();
      rank.executor().unit(numbers[i]).backward_weight(saved[i], context);
    }
  };
  run_fixture(config, {.prepare = measure});
  return units;
}

CostModel costs_of(const StagePlan& plan, const std::vector<WorkCost>& units) {
  std::vector<std::vector<WorkCost>> of_stage(static_cast<size_t>(plan.stages()));
  for (int unit = 0; unit < plan.units(); ++unit)
    of_stage[static_cast<size_t>(plan.stage_of(unit))].push_back(units[static_cast<size_t>(unit)]);
  CostModel costs(std::move(of_stage));
  costs.message_bytes = units[1].input;
  return costs;
}

class LiveBytesOf : public testing::TestWithParam<std::string> {};

TEST_P(LiveBytesOf, AreTheSimulatedOnes) {
  const Keys model = odd_model("llama", 7) + Keys{"train.global_batch_size=5"};
  const std::vector<WorkCost> units = measured_units(fixture_config(model));
  const RunConfig config = fixture_config(
      model + Keys{"parallel.pp=2", "parallel.schedule=" + GetParam(),
                   GetParam() == "interleaved" ? "parallel.virtual_stages=2" : "parallel.virtual_stages=1"});
  int64_t kept = 0;  // without recomputation, what does not leave
  for (const bool recompute : {false, true})
    for (const bool offload : {false, true}) {
      std::array<int64_t, kRanks> measured{}, simulated{};
      const auto run = [&](Rank& rank) {
        const StagePlan& plan = rank.executor().plan();
        const CostModel costs = costs_of(plan, units);
        StepSchedule options = step_schedule(config);
        options.together = true;
        Schedule schedule = plain_schedule(options, plan, costs, kMicrobatches);
        schedule =
            with_recomputation(schedule, std::vector<bool>(static_cast<size_t>(plan.stages()), recompute));
        schedule = with_units(with_messages(schedule), plan.units_of_stages());
        if (offload) schedule = with_offload(schedule);
        validate(schedule, {.units_of_stage = plan.units_of_stages()});
        const auto place = static_cast<size_t>(rank.executor().rank());
        simulated[place] = simulate(schedule, costs).ranks[place].peak_bytes;

        StepStart start(rank, config);
        int64_t& most = measured[place];
        rank.executor().run(
            {.actions = schedule.by_rank[place],
             .batches = start.batches,
             .step = start.info,
             .loss_total = start.loss_total,
             .after = [&](const Action&) { most = std::max(most, rank.executor().live_bytes()); }});
        EXPECT_EQ(rank.executor().live_bytes(), 0);
      };
      run_fixture(config, {.prepare = run});
      EXPECT_EQ(measured, simulated) << (recompute ? "recomputed" : "kept") << (offload ? ", offload" : "");
      EXPECT_GT(measured[0], 0);
      if (recompute) continue;
      if (offload) {
        EXPECT_LT(measured[0], kept);
      }
      kept = measured[0];
    }
}

std::vector<std::string> names() {
  std::vector<std::string> names{"auto"};
  for (const std::string_view name : schedule_names()) names.emplace_back(name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Schedules, LiveBytesOf, testing::ValuesIn(names()),
                         [](const auto& info) { return info.param == "1f1b" ? "one_f_one_b" : info.param; });

}  // namespace
}  // namespace tessera::test
