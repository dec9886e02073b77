// SPDX-License-Identifier: Apache-2.0
// The tables of docs/pipelines.md are what the simulator says. TESSERA_UPDATE_DOCS=1 in the environment
// writes them anew.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include "framework/parallel/pipeline/generate.h"
#include "framework/parallel/pipeline/passes.h"
#include "framework/parallel/pipeline/simulate.h"
#include "tests/support/doc_page.h"

namespace tessera {
namespace {

constexpr int kPageRanks = 8, kMicrobatches = 24, kChunks = 3;

// Each of a rank's stages has a part of its work of a micro-batch.
CostModel costs_of(const WorkCost& whole, int parts, double message) {
  WorkCost cost = whole;
  cost.forward /= parts;
  cost.backward_input /= parts;
  cost.backward_weight /= parts;
  cost.saved /= parts;
  cost.saved_for_weight /= parts;
  CostModel costs = equal_costs(kPageRanks * parts, cost);
  costs.message = message;
  return costs;
}

std::string row(std::string_view name, const Schedule& schedule, const WorkCost& whole, double message) {
  const int parts = schedule.stages / kPageRanks;
  const CostModel costs = costs_of(whole, parts, message);
  const Simulation simulation = simulate(schedule, costs);
  return fmt::format("| {} | {} | {:.1f} % | {:.1f} % | {:.1f} |\n", name, parts, 100 * simulation.bubble(),
                     100 * simulation.bubble_without_agreement(),
                     static_cast<double>(simulation.peak_bytes()) / static_cast<double>(whole.saved));
}

std::string table(const WorkCost& whole, double message) {
  std::string text =
      "| schedule | stages a rank | bubble | bubble without agreement | live activations "
      "|\n|---|---|---|---|---|\n";
  for (const std::string_view name : schedule_names()) {
    const Schedule schedule = named_schedule(name, kPageRanks, kMicrobatches, kChunks);
    text += row(name, schedule, whole, message);
    if (const Schedule apart = one_by_one(schedule); apart.by_rank != schedule.by_rank)
      text += row(fmt::format("{}, one by one", name), apart, whole, message);
  }
  const CostModel straight = costs_of(whole, 1, message), v = costs_of(whole, 2, message);
  for (const int bound : {4, 8, 16})
    text +=
        row(fmt::format("auto, at most {}", bound),
            auto_schedule(straight, straight_placement(kPageRanks, 1), kMicrobatches, bound * whole.saved),
            whole, message);
  for (const int bound : {4, 5, 8})
    text +=
        row(fmt::format("auto on a V, at most {}", bound),
            auto_schedule(v, v_placement(kPageRanks), kMicrobatches, bound * whole.saved), whole, message);
  return text;
}

// Most that a rank holds, in micro-batches of a rank's layers, and how much longer than its work the step is,
// in the work of a stage.
std::string v_table() {
  std::string text =
      "| ranks | 1F1B holds | V-Half holds | idle | V-Min holds | idle |\n|---|---|---|---|---|---|\n";
  for (const int p : {2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 16, 24, 31, 32}) {
    text += fmt::format("| {} | {} |", p, p);
    for (const auto& make : {v_half, v_min}) {
      const Schedule schedule = make(p, 3 * p);
      const Simulation simulation = simulate(schedule, equal_costs(schedule.stages));
      text += fmt::format(" {:g} | {:g} |", static_cast<double>(simulation.peak_bytes()) / 2,
                          simulation.seconds() - 6.0 * schedule.microbatches);
    }
    text += "\n";
  }
  return text;
}

TEST(PipelinesPage, TablesAreWhatTheSimulatorSays) {
  expect_tables(TESSERA_SOURCE_DIR "/docs/pipelines.md",
                {{"equal costs", table({.saved = 600, .saved_for_weight = 600}, 0)},
                 {"live activations of a V", v_table()},
                 {"measured costs", table({.forward = 18.522,
                                           .backward_input = 18.086,
                                           .backward_weight = 9.337,
                                           .saved = 8730,
                                           .saved_for_weight = 3200},
                                          0.601)}});
}

}  // namespace
}  // namespace tessera
