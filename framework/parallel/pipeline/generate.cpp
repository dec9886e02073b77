// SPDX-License-Identifier: Apache-2.0
#include "framework/parallel/pipeline/generate.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <queue>

#include "framework/base/check.h"
#include "framework/parallel/pipeline/fill.h"
#include "framework/parallel/pipeline/passes.h"
#include "framework/parallel/pipeline/quickest.h"

namespace tessera {
namespace {

// Weight gradients go where a rank waits in a world of equal costs, within `live` activations of stages.
Schedule split(const Pattern& pattern, int microbatches, int64_t live) {
  const Schedule order = ordered(pattern, microbatches, ActionKind::BackwardInput);
  const CostModel costs = equal_costs(order.stages);
  return filled(order, costs, {.bytes = std::max(live, std::ranges::max(least_bytes(order, costs)))});
}

// The quickest order on a V with some of these legs in that world and within `live` activations of stages: W
// in the gaps, which shortens the ramps, or on its own unit of the pattern, where memory is too tight for
// that.
Schedule v_form(int ranks, int microbatches, std::initializer_list<VLegs> choices, int64_t live) {
  const CostModel costs = equal_costs(2 * ranks);
  Quickest search(costs, live);
  for (const VLegs& legs : choices)
    for (const Pattern& pattern : v_patterns(ranks, legs)) {
      const Schedule order = ordered(pattern, microbatches, ActionKind::BackwardInput);
      if (std::ranges::max(least_bytes(order, costs)) <= live)
        search.consider(filled(order, costs, {.bytes = live}));
      search.consider(in_place(pattern, microbatches));
    }
  CHECK(search.best(), "no order on a V of {} ranks keeps within {} live stages", ranks, live);
  return *search.best();
}

// One rank of DualPipe-V: micro-batches are counted off stage by stage.
class DualPipeRank {
 public:
  DualPipeRank(int rank, int ranks, int microbatches)
      : below_(rank), above_(2 * ranks - 1 - rank), microbatches_(microbatches) {}

  std::vector<Action> run(int ranks) {
    const int deeper = ranks - 1 - below_, rest = below_ + 1;
    repeat(2 * deeper, [&] { forward(below_); });
    repeat(rest, [&] { forward(below_), forward(above_); });
    repeat(deeper, [&] { backward(above_, true), weight(), forward(above_); });
    repeat(microbatches_ - 2 * ranks + rest, [&] { together(below_, above_), together(above_, below_); });
    repeat(deeper, [&] { backward(above_, false), together(above_, below_); });
    // From the middle of the tail on, what others wait for goes first.
    for (int i = 0; i < 2 * rest; ++i) backward(i % 2 ? below_ : above_, i >= rest);
    repeat(deeper, [&] { weight(), backward(below_, true); });
    repeat(rest, [&] { weight(); });
    return std::move(actions_);
  }

 private:
  template <class F>
  static void repeat(int times, F&& body) {
    for (int i = 0; i < times; ++i) body();
  }
  void forward(int stage) {
    actions_.push_back({ActionKind::Forward, stage, -1, forwards_[stage == above_]++});
  }
  void backward(int stage, bool split) {
    const int m = backwards_[stage == above_]++;
    actions_.push_back({split ? ActionKind::BackwardInput : ActionKind::Backward, stage, -1, m});
    if (split) weights_.push({ActionKind::BackwardWeight, stage, -1, m});
  }
  void together(int forward_stage, int backward_stage) {
    forward(forward_stage);
    backward(backward_stage, false);
    actions_.back().together = true;
  }
  void weight() {
    actions_.push_back(weights_.front());
    weights_.pop();
  }

  int below_, above_, microbatches_;
  int forwards_[2] = {}, backwards_[2] = {};
  std::queue<Action> weights_;
  std::vector<Action> actions_;
};

}  // namespace

Schedule gpipe(int ranks, int microbatches) {
  Pattern pattern = straight_pattern(ranks, 1, 2);
  for (int64_t& time : pattern.backward) time += pattern.delay(microbatches) + ranks;
  return ordered(pattern, microbatches, ActionKind::Backward);
}

Schedule one_forward_one_backward(int ranks, int microbatches) {
  return ordered(straight_pattern(ranks, 1, 2), microbatches, ActionKind::Backward);
}

Schedule interleaved(int ranks, int microbatches, int chunks) {
  return ordered(straight_pattern(ranks, chunks, 5), microbatches, ActionKind::Backward);
}

Schedule zb_h1(int ranks, int microbatches) {
  return split(straight_pattern(ranks, 1, 2), microbatches, ranks);
}

Schedule zb_h2(int ranks, int microbatches) {
  return split(straight_pattern(ranks, 1, 5), microbatches, 2 * ranks - 1);
}

Schedule zb_v(int ranks, int microbatches) {
  return v_form(ranks, microbatches, {kZbVLegs}, 2 * ranks);
}

Schedule v_half(int ranks, int microbatches) {
  return v_form(ranks, microbatches, {kVHalfLegs}, 2 * ((ranks + 2) / 2));
}

Schedule v_min(int ranks, int microbatches) {
  // On few ranks the bound leaves room for the other legs.
  return v_form(ranks, microbatches, {kVMinLegs, kVHalfLegs}, 2 * ((ranks + 4) / 3));
}

Schedule dualpipe_v(int ranks, int microbatches) {
  CHECK(microbatches >= 1, "a schedule needs at least one micro-batch, got {}", microbatches);
  Schedule schedule{
      .stages = 2 * ranks, .microbatches = microbatches, .rank_of_stage = v_placement(ranks), .by_rank = {}};
  // The form is made for 2 * ranks micro-batches and more. Of fewer, the others are left out: what remains is
  // in an order that runs, if none has to wait for two.
  for (int rank = 0; rank < ranks; ++rank) {
    auto& actions = schedule.by_rank.emplace_back();
    actions = DualPipeRank(rank, ranks, std::max(microbatches, 2 * ranks)).run(ranks);
    std::erase_if(actions, [&](const Action& action) { return action.microbatch >= microbatches; });
  }
  return microbatches < 2 * ranks ? one_by_one(std::move(schedule)) : schedule;
}

namespace {

struct Form {
  std::string_view name;
  Schedule (*make)(int ranks, int microbatches);
};
constexpr Form kForms[] = {{"1f1b", one_forward_one_backward},
                           {"gpipe", gpipe},
                           {"interleaved", nullptr},
                           {"zb_h1", zb_h1},
                           {"zb_h2", zb_h2},
                           {"zb_v", zb_v},
                           {"v_half", v_half},
                           {"v_min", v_min},
                           {"dualpipe_v", dualpipe_v}};

}  // namespace

std::vector<std::string_view> schedule_names() {
  std::vector<std::string_view> names;
  for (const Form& form : kForms) names.push_back(form.name);
  return names;
}

Schedule named_schedule(std::string_view name, int ranks, int microbatches, int chunks) {
  const auto form = std::ranges::find(kForms, name, &Form::name);
  CHECK_AS(ExitCode::Usage, form != std::end(kForms), "'{}' is not a schedule; there are {}", name,
           fmt::join(schedule_names(), ", "));
  return form->make ? form->make(ranks, microbatches) : interleaved(ranks, microbatches, chunks);
}

}  // namespace tessera
