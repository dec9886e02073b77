// SPDX-License-Identifier: Apache-2.0
// The bubble rates that the zero bubble paper prints, from its own measured times.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cmath>

#include "framework/parallel/pipeline/generate.h"
#include "framework/parallel/pipeline/simulate.h"
#include "tests/fixtures/pipeline/zero_bubble_rates.h"

namespace tessera {
namespace {

// The row's times on stages that each hold 1 / chunks of a rank's layers. Activation bytes per layer, token
// and hidden element are 34 + 5 as/h, of which 32 wait for the weight gradient (the paper's section on
// memory).
CostModel costs_of(const ZeroBubbleRow& row, int chunks) {
  const double saved = 34 + 5.0 * row.heads * 1024 / row.hidden;
  const WorkCost cost{.forward = row.forward / chunks,
                      .backward_input = row.backward_input / chunks,
                      .backward_weight = row.backward_weight / chunks,
                      .saved = std::llround(1000 * saved),
                      .saved_for_weight = 32000};
  CostModel costs = equal_costs(row.stages * chunks, cost);
  costs.message = row.message;
  return costs;
}

std::string name_of(const ZeroBubbleRow& row) {
  return fmt::format("{}, {} micro-batches", row.model, row.microbatches);
}

TEST(PublishedRates, NamedForms) {
  for (const ZeroBubbleRow& row : kZeroBubbleRows) {
    SCOPED_TRACE(name_of(row));
    const int p = row.stages, m = row.microbatches, chunks = (row.layers + 2) / p;
    const auto rate = [](const Schedule& schedule, const CostModel& costs) {
      return simulate(schedule, costs).bubble_without_agreement();
    };
    const CostModel costs = costs_of(row, 1);
    EXPECT_NEAR(rate(one_forward_one_backward(p, m), costs), row.one_forward_one_backward, 1e-4);
    EXPECT_NEAR(rate(zb_h1(p, m), costs), row.zb_h1, 1e-4);
    EXPECT_NEAR(rate(zb_h2(p, m), costs), row.zb_h2, 1e-4);
    // The paper counts messages of the ramp otherwise.
    EXPECT_NEAR(rate(interleaved(p, m, chunks), costs_of(row, chunks)), row.interleaved, 0.01);
  }
}

// As printed, to its four digits, at no more than 2p live activations.
TEST(PublishedRates, AutoIsNoWorseThanTheirSearch) {
  for (const ZeroBubbleRow& row : kZeroBubbleRows) {
    SCOPED_TRACE(name_of(row));
    const int p = row.stages, m = row.microbatches;
    const CostModel costs = costs_of(row, 1);
    const WorkCost& cost = costs.of(0, -1);
    const int64_t bytes = 2 * p * cost.saved;
    const Simulation simulation = simulate(auto_schedule(costs, straight_placement(p, 1), m, bytes), costs);
    EXPECT_LE(simulation.bubble_without_agreement(), row.zb_2p + 0.5e-4);
    EXPECT_LE(simulation.peak_bytes(), bytes);
    // With the agreement at the end of a step nothing is left but the way to the last rank.
    const double way = (p - 1) * (cost.forward + costs.message);
    EXPECT_NEAR(simulation.seconds(), way + m * (cost.forward + cost.backward_input + cost.backward_weight),
                1e-6);
  }
}

}  // namespace
}  // namespace tessera
