// SPDX-License-Identifier: Apache-2.0
// A model of 96 blocks on 1,024 ranks, 1,536 rows a step: the schedule of each depth of pipeline is made,
// taken apart into units with everything that a run needs, proved and simulated. Prints the seconds it takes.
#include <gtest/gtest.h>

#include <chrono>
#include <functional>

#include "framework/parallel/pipeline/generate.h"
#include "framework/parallel/pipeline/passes.h"
#include "framework/parallel/pipeline/simulate.h"
#include "framework/parallel/pipeline/validate.h"

namespace tessera {
namespace {

constexpr int kBlocks = 96, kRanks = 1024, kRows = 1536, kTensor = 8;

void plan(const std::string& name, int ranks, int stages, int microbatches,
          const std::function<Schedule(const CostModel&)>& make) {
  const auto start = std::chrono::steady_clock::now();
  ValidationSizes sizes;
  std::vector<std::vector<WorkCost>> costs;
  for (int stage = 0; stage < stages; ++stage) {
    sizes.units_of_stage.push_back(kBlocks / stages + (stage == 0) + (stage + 1 == stages));
    sizes.bucket_first_unit.push_back({sizes.units_of_stage.back() - 1});
    costs.emplace_back(static_cast<size_t>(sizes.units_of_stage.back()), WorkCost{.input = 1});
  }
  sizes.tied = {{{0, 0}, {stages - 1, sizes.units_of_stage.back() - 1}}};
  sizes.gathered_units = 2;
  const CostModel model(std::move(costs));
  const Schedule schedule = with_gradient_reduction(
      with_parameter_gathers(
          with_units(with_messages(with_recomputation(make(model),
                                                      std::vector<bool>(static_cast<size_t>(stages), true))),
                     sizes.units_of_stage),
          1),
      sizes.bucket_first_unit, sizes.tied);
  const Simulation simulation = simulate(schedule, model);
  sizes.costs = &model;
  sizes.bytes = simulation.peak_bytes();
  validate(schedule, sizes);
  size_t actions = 0;
  for (const auto& list : schedule.by_rank) actions += list.size();
  EXPECT_GT(simulation.bubble(), 0);
  std::printf("%-12s pp %2d, %4d micro-batches, %7zu actions: %.3f s\n", name.c_str(), ranks, microbatches,
              actions, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
}

TEST(Large, OneThousandRanks) {
  for (const int ranks : {16, 32}) {
    const int m = kRows / (kRanks / ranks / kTensor);
    plan("1f1b", ranks, ranks, m, [&](const CostModel&) { return one_forward_one_backward(ranks, m); });
    plan("interleaved", ranks, 3 * ranks, m, [&](const CostModel&) { return interleaved(ranks, m, 3); });
    plan("zb_h2", ranks, ranks, m, [&](const CostModel&) { return zb_h2(ranks, m); });
    plan("v_half", ranks, 2 * ranks, m, [&](const CostModel&) { return v_half(ranks, m); });
    plan("auto", ranks, ranks, m, [&](const CostModel& costs) {
      return auto_schedule(costs, straight_placement(ranks, 1), m, 2 * ranks * costs.of(0, -1).saved);
    });
  }
}

}  // namespace
}  // namespace tessera
