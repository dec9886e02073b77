// SPDX-License-Identifier: Apache-2.0
#include "framework/parallel/pipeline/generate.h"

#include <gtest/gtest.h>

#include "framework/base/check.h"
#include "framework/parallel/pipeline/passes.h"
#include "framework/parallel/pipeline/simulate.h"
#include "framework/parallel/pipeline/validate.h"

namespace tessera {
namespace {

struct Form {
  const char* name;
  Schedule (*make)(int ranks, int microbatches);
};

Schedule interleaved_by_2(int ranks, int microbatches) {
  return interleaved(ranks, microbatches, 2);
}
Schedule interleaved_by_3(int ranks, int microbatches) {
  return interleaved(ranks, microbatches, 3);
}
Schedule auto_straight(int ranks, int microbatches) {
  return auto_schedule(equal_costs(ranks), straight_placement(ranks, 1), microbatches, 2 * ranks);
}
Schedule auto_in_little_memory(int ranks, int microbatches) {
  return auto_schedule(equal_costs(2 * ranks), straight_placement(ranks, 2), microbatches, ranks + 1);
}
Schedule auto_v(int ranks, int microbatches) {
  return auto_schedule(equal_costs(2 * ranks), v_placement(ranks), microbatches, ranks + 2);
}

constexpr Form kForms[] = {{"gpipe", gpipe},
                           {"1f1b", one_forward_one_backward},
                           {"interleaved by 2", interleaved_by_2},
                           {"interleaved by 3", interleaved_by_3},
                           {"zb_h1", zb_h1},
                           {"zb_h2", zb_h2},
                           {"zb_v", zb_v},
                           {"v_half", v_half},
                           {"v_min", v_min},
                           {"dualpipe_v", dualpipe_v},
                           {"auto", auto_straight},
                           {"auto in little memory", auto_in_little_memory},
                           {"auto on a V", auto_v}};

std::vector<int> units_of(const Schedule& schedule, int units) {
  return std::vector<int>(static_cast<size_t>(schedule.stages), units);
}

// Fewer micro-batches than stages, and numbers that do not divide, included.
TEST(Generate, EveryFormIsValidWithAndWithoutMessages) {
  for (const Form& form : kForms)
    for (int ranks = 1; ranks <= 6; ++ranks)
      for (int microbatches = 1; microbatches <= 14; ++microbatches) {
        SCOPED_TRACE(fmt::format("{} on {} ranks, {} micro-batches", form.name, ranks, microbatches));
        const Schedule schedule = form.make(ranks, microbatches);
        ASSERT_EQ(schedule.by_rank.size(), static_cast<size_t>(ranks));
        ASSERT_NO_THROW(validate(schedule, {.units_of_stage = units_of(schedule, 1), .messages = false}));
        ASSERT_NO_THROW(validate(with_messages(schedule), {.units_of_stage = units_of(schedule, 1)}));
      }
}

TEST(Generate, TextReadsBackWithItsPlacement) {
  for (const Form& form : kForms) {
    const Schedule schedule = with_messages(form.make(4, 6));
    const Schedule again = schedule_from_text("# " + std::string(form.name) + "\n" + to_text(schedule));
    EXPECT_EQ(to_text(again), to_text(schedule));
    EXPECT_EQ(again.rank_of_stage, schedule.rank_of_stage);
    EXPECT_EQ(again.stages, schedule.stages);
    EXPECT_EQ(again.microbatches, schedule.microbatches);
  }
}

TEST(Generate, KnownLists) {
  EXPECT_EQ(to_text(gpipe(2, 3)), "0F0 0F1 0F2 0B0 0B1 0B2\n1F0 1F1 1F2 1B0 1B1 1B2\n");
  EXPECT_EQ(to_text(one_forward_one_backward(3, 4)),
            "0F0 0F1 0F2 0B0 0F3 0B1 0B2 0B3\n"
            "1F0 1F1 1B0 1F2 1B1 1F3 1B2 1B3\n"
            "2F0 2B0 2F1 2B1 2F2 2B2 2F3 2B3\n");
  // By hand: two live activations, so that W0 makes room for F2 on both ranks; 3 * 3 + 1 units of time.
  EXPECT_EQ(to_text(zb_h1(2, 3)),
            "0F0 0F1 0I0 0W0 0F2 0I1 0W1 0I2 0W2\n1F0 1I0 1F1 1I1 1W0 1F2 1I2 1W1 1W2\n");
}

TEST(Generate, FormsAreFoundByTheirNames) {
  EXPECT_EQ(schedule_names().size(), 9u);
  for (const std::string_view name : schedule_names())
    EXPECT_EQ(named_schedule(name, 3, 5, 2).by_rank.size(), 3u) << name;
  EXPECT_EQ(to_text(named_schedule("interleaved", 2, 4, 3)), to_text(interleaved(2, 4, 3)));
  EXPECT_EQ(to_text(named_schedule("v_min", 2, 4, 3)), to_text(v_min(2, 4)));
  try {
    named_schedule("zb_h3", 2, 4, 1);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::Usage);
    EXPECT_NE(std::string(error.what()).find("zb_h1"), std::string::npos);
  }
}

TEST(Generate, VFormsPlaceTheFirstAndTheLastStageTogether) {
  EXPECT_EQ(v_placement(3), (std::vector<int>{0, 1, 2, 2, 1, 0}));
  EXPECT_EQ(straight_placement(2, 3), (std::vector<int>{0, 1, 0, 1, 0, 1}));
  for (const auto& make : {zb_v, v_half, v_min, dualpipe_v})
    EXPECT_EQ(make(3, 5).rank_of_stage, v_placement(3));
}

// In units of one whole stage's F, I and W on a rank: a V's and an interleaved stage is a part of it.
double slots(const Schedule& schedule, double* without_agreement = nullptr) {
  const auto ranks = static_cast<double>(schedule.by_rank.size());
  const double part = ranks / schedule.stages;
  const Simulation simulation = simulate(schedule, equal_costs(schedule.stages, {part, part, part, 1, 1, 0}));
  if (without_agreement) *without_agreement = simulation.longest_rank();
  return simulation.seconds();
}

TEST(Generate, BubblesOfEqualCostsAreTheTextbookOnes) {
  for (int p : {1, 2, 3, 4, 8, 16})
    for (int groups : {1, 2, 5}) {
      const int m = groups * p;
      SCOPED_TRACE(fmt::format("p {} m {}", p, m));
      const auto bubble = [&](const Schedule& schedule) {
        return simulate(schedule, equal_costs(schedule.stages)).bubble();
      };
      EXPECT_NEAR(bubble(gpipe(p, m)), (p - 1.0) / (m + p - 1), 1e-12);
      EXPECT_NEAR(bubble(one_forward_one_backward(p, m)), (p - 1.0) / (m + p - 1), 1e-12);
      for (int v : {1, 2, 3})
        EXPECT_NEAR(bubble(interleaved(p, m, v)), (p - 1.0) / (v * m + p - 1), 1e-12) << v;
    }
  // Rows of arXiv 2401.10241: 1F1B idles (p-1)(F+I+W), ZB-H1 (p-1)(F+I-W), ZB-H2 nothing but the way to the
  // last rank.
  double without_agreement = 0;
  EXPECT_DOUBLE_EQ(slots(one_forward_one_backward(4, 8)), 33);
  EXPECT_DOUBLE_EQ(slots(zb_h1(4, 8)), 27);
  EXPECT_DOUBLE_EQ(slots(zb_h2(4, 8), &without_agreement), 27);
  EXPECT_DOUBLE_EQ(without_agreement, 24);
  // On a V the way to the last rank is half as long, and there is no other.
  EXPECT_DOUBLE_EQ(slots(zb_v(4, 8), &without_agreement), 25.5);
  EXPECT_DOUBLE_EQ(without_agreement, 24);
  // Its authors' idle time, (p-1)(F&B + B - 3W) of half a stage each, where a forward and a backward together
  // take no less than one after the other; and what is left when they are taken so.
  EXPECT_DOUBLE_EQ(slots(dualpipe_v(4, 8)), 27);
  EXPECT_DOUBLE_EQ(slots(one_by_one(dualpipe_v(4, 8))), 25.5);
  // With 3 and 2 live activations (least_time_test.cpp).
  EXPECT_DOUBLE_EQ(slots(v_half(4, 8)), 26.5);
  EXPECT_DOUBLE_EQ(slots(v_min(4, 8)), 29.5);
}

// Live activations of a whole micro-batch on a rank, those that wait for their weight gradient included.
double live(const Schedule& schedule) {
  const auto peak = static_cast<double>(simulate(schedule, equal_costs(schedule.stages)).peak_bytes());
  return peak * static_cast<double>(schedule.by_rank.size()) / schedule.stages;
}

TEST(Generate, LiveActivationsAreBoundedAsDeclared) {
  for (int p : {1, 2, 3, 4, 5, 8, 12, 16, 31}) {
    const int m = 4 * p;
    SCOPED_TRACE(p);
    EXPECT_EQ(live(gpipe(p, m)), m);
    EXPECT_EQ(live(one_forward_one_backward(p, m)), p);
    EXPECT_EQ(live(zb_h1(p, m)), p);
    EXPECT_EQ(live(zb_h2(p, m)), 2 * p - 1);
    for (int v : {2, 3}) EXPECT_NEAR(live(interleaved(p, m, v)), p + (p - 1.0) / v, 1e-9);
    EXPECT_EQ(live(zb_v(p, m)), p);
    EXPECT_EQ(live(dualpipe_v(p, m)), p);
    EXPECT_EQ(live(one_by_one(dualpipe_v(p, m))), p + 0.5);
  }
}

// The authors' counts, whole micro-batches; and times no longer than closed forms, in units of a stage's
// work.
TEST(Generate, VHalfAndVMinKeepToTheAuthorsMemory) {
  for (int p = 1; p <= 32; ++p)
    for (const int m : {1, p, 2 * p + 1, 3 * p + p % 2}) {
      SCOPED_TRACE(fmt::format("p {} m {}", p, m));
      const auto idle = [&](const Schedule& schedule) {
        return simulate(schedule, equal_costs(schedule.stages)).seconds() - 6 * m;
      };
      const Schedule half = v_half(p, m), min = v_min(p, m);
      EXPECT_LE(live(half), (p + 2) / 2);
      EXPECT_LE(live(min), (p + 4) / 3);
      if (m < p || p < 3) continue;
      EXPECT_LE(idle(half), p % 2 ? 3 * p - 4 : 3 * p - 7);
      EXPECT_LE(idle(min), p % 3 ? 4 * p - 5 : 4 * p - 3);
    }
}

TEST(Generate, EveryRankOfAVHoldsAsMuch) {
  for (const auto& make : {zb_v, v_half, v_min}) {
    const Schedule schedule = make(8, 64);
    const Simulation simulation = simulate(schedule, equal_costs(schedule.stages));
    for (const RankUse& rank : simulation.ranks) EXPECT_GE(rank.peak_bytes, simulation.peak_bytes() - 2);
  }
}

TEST(Generate, AutoKeepsItsBoundAndGainsByMoreMemory) {
  WorkCost cost{
      .forward = 1.1, .backward_input = 1.2, .backward_weight = 0.7, .saved = 100, .saved_for_weight = 40};
  CostModel costs = equal_costs(6, cost);
  costs.message = 0.05;
  double before = 1e9;
  for (const int64_t bytes : {100, 200, 300, 450, 600, 900, 1200}) {
    const Schedule schedule = auto_schedule(costs, straight_placement(6, 1), 18, bytes);
    const Simulation simulation = simulate(schedule, costs);
    EXPECT_LE(simulation.peak_bytes(), bytes);
    EXPECT_NO_THROW(validate(
        schedule,
        {.units_of_stage = units_of(schedule, 1), .messages = false, .costs = &costs, .bytes = bytes}));
    EXPECT_LE(simulation.seconds(), before * 1.0001) << bytes;
    before = simulation.seconds();
  }
  try {
    auto_schedule(costs, straight_placement(6, 1), 18, 99);
    FAIL() << "no micro-batch fits";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::Usage);
  }
}

TEST(Generate, AutoIsNoSlowerThanTheNamedFormsThatFit) {
  // Stages of unequal cost: the last one has the head.
  std::vector<std::vector<WorkCost>> stages;
  for (int s = 0; s < 8; ++s)
    stages.push_back(
        {{.forward = s == 7 ? 1.4 : 1.0, .backward_input = s == 7 ? 1.3 : 1.1, .backward_weight = 0.8}});
  CostModel costs(stages);
  costs.message = 0.1;
  for (int m : {3, 8, 24}) {
    const double h1 = simulate(zb_h1(8, m), costs).seconds(), h2 = simulate(zb_h2(8, m), costs).seconds();
    EXPECT_LE(simulate(auto_schedule(costs, straight_placement(8, 1), m, 8), costs).seconds(), h1 + 1e-9)
        << m;
    EXPECT_LE(simulate(auto_schedule(costs, straight_placement(8, 1), m, 15), costs).seconds(), h2 + 1e-9)
        << m;
  }
}

}  // namespace
}  // namespace tessera
