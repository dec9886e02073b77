// SPDX-License-Identifier: Apache-2.0
#include "framework/parallel/pipeline/passes.h"

#include <algorithm>
#include <map>
#include <set>
#include <span>

#include "framework/base/check.h"

namespace tessera {
namespace {

// The schedule with each rank's list made anew by rewrite(actions, list).
template <class F>
Schedule rewritten(const Schedule& schedule, F&& rewrite) {
  Schedule result{.stages = schedule.stages,
                  .microbatches = schedule.microbatches,
                  .rank_of_stage = schedule.rank_of_stage,
                  .by_rank = {}};
  for (const auto& actions : schedule.by_rank) rewrite(actions, result.by_rank.emplace_back());
  return result;
}

using Place = std::pair<int, int>;  // stage, unit

// An action of a whole stage unit by unit; any other as it is.
std::vector<Action> pieces_of(const Action& action, const std::vector<int>& units_of_stage) {
  if (action.unit >= 0 || !(is_work(action.kind) || is_transfer(action.kind))) return {action};
  const int units = units_of_stage.at(static_cast<size_t>(action.stage));
  const bool upward =
      is_forward(action.kind) || action.kind == ActionKind::Recompute || action.kind == ActionKind::Offload;
  std::vector<Action> pieces(static_cast<size_t>(units), action);
  for (int i = 0; i < units; ++i) pieces[static_cast<size_t>(i)].unit = upward ? i : units - 1 - i;
  return pieces;
}

}  // namespace

Schedule with_recomputation(const Schedule& schedule, const std::vector<bool>& stage_recomputes) {
  return rewritten(schedule, [&](const std::vector<Action>& actions, std::vector<Action>& list) {
    std::set<std::pair<int, int>> kept;  // stage, micro-batch: a list may have repeated forwards already
    for (size_t i = 0, length = 1; i < actions.size(); i += length) {
      length = length_of_step(actions, i);
      const std::span<const Action> step(&actions[i], length);
      for (const Action& action : step) {
        CHECK(action.unit < 0, "stages are recomputed before they are taken apart, found {}",
              to_text(action));
        if (starts_backward(action.kind) && kept.contains({action.stage, action.microbatch}))
          list.push_back({ActionKind::Recompute, action.stage, -1, action.microbatch});
      }
      for (Action action : step) {
        if (action.kind == ActionKind::Forward && stage_recomputes.at(static_cast<size_t>(action.stage))) {
          action.kind = ActionKind::ForwardKeepingInput;
          kept.insert({action.stage, action.microbatch});
        }
        list.push_back(action);
      }
    }
  });
}

Schedule with_units(const Schedule& schedule, const std::vector<int>& units_of_stage) {
  return rewritten(schedule, [&](const std::vector<Action>& actions, std::vector<Action>& list) {
    for (size_t i = 0, length = 1; i < actions.size(); i += length) {
      length = length_of_step(actions, i);
      const std::span<const Action> step(&actions[i], length);
      std::vector<std::vector<Action>> pieces;
      for (const Action& action : step) pieces.push_back(pieces_of(action, units_of_stage));
      const size_t most = std::ranges::max(pieces, {}, &std::vector<Action>::size).size();
      for (size_t unit = 0; unit < most; ++unit)
        for (const std::vector<Action>& side : pieces) {
          if (unit >= side.size()) continue;
          list.push_back(side[unit]);
          list.back().together &= unit < pieces.front().size();
        }
    }
  });
}

Schedule one_by_one(Schedule schedule) {
  for (auto& actions : schedule.by_rank)
    for (Action& action : actions) action.together = false;
  return schedule;
}

Schedule with_offload(const Schedule& schedule, int least_between) {
  CHECK(least_between >= 2, "what is away for less than 2 pieces of work has no time to leave and return");
  return rewritten(schedule, [&](const std::vector<Action>& actions, std::vector<Action>& list) {
    struct Step {
      size_t first, last;  // places of its actions
    };
    std::vector<Step> work;                            // in order; of a pair that runs together, one
    std::map<std::pair<Place, int>, size_t> forwards;  // in `work`, by unit and micro-batch
    std::multimap<size_t, Action> leaving, returning;  // by the place that they follow, or precede
    for (size_t i = 0, length = 1; i < actions.size(); i += length) {
      length = length_of_step(actions, i);
      if (!is_work(actions[i].kind)) continue;
      for (const Action& a : std::span(&actions[i], length)) {
        const std::pair unit(Place(a.stage, a.unit), a.microbatch);
        if (is_forward(a.kind)) forwards[unit] = work.size();
        const auto forward = forwards.find(unit);
        if (is_forward(a.kind) || forward == forwards.end()) continue;
        if (work.size() - forward->second > static_cast<size_t>(least_between)) {
          size_t behind = work[forward->second].last;
          const Action send{ActionKind::SendActivation, a.stage, -1, a.microbatch};
          if (actions[behind + 1] == send) ++behind;
          leaving.insert({behind, {ActionKind::Offload, a.stage, a.unit, a.microbatch}});
          returning.insert({work.back().first, {ActionKind::Reload, a.stage, a.unit, a.microbatch}});
        }
        forwards.erase(forward);
      }
      work.push_back({i, i + length - 1});
    }
    const auto place = [&](const std::multimap<size_t, Action>& transfers, size_t i) {
      const auto [begin, end] = transfers.equal_range(i);
      for (auto it = begin; it != end; ++it) list.push_back(it->second);
    };
    for (size_t i = 0; i < actions.size(); ++i) {
      place(returning, i);
      list.push_back(actions[i]);
      place(leaving, i);
    }
  });
}

Schedule with_parameter_gathers(const Schedule& schedule, int prefetch) {
  CHECK(prefetch >= 0, "prefetch {} is negative", prefetch);
  const auto uses = [](const Action& a) { return is_work(a.kind); };
  return rewritten(schedule, [&](const std::vector<Action>& actions, std::vector<Action>& list) {
    std::vector<Place> gathered;
    const auto drop_all_but = [&](const std::vector<Place>& needed, int microbatch) {
      std::erase_if(gathered, [&](const Place& place) {
        if (std::ranges::find(needed, place) != needed.end()) return false;
        list.push_back({ActionKind::DropParameters, place.first, place.second, microbatch});
        return true;
      });
    };
    for (size_t i = 0; i < actions.size(); ++i) {
      const Action& action = actions[i];
      if (uses(action)) {
        CHECK(action.unit >= 0, "parameters are gathered unit by unit, found {}", to_text(action));
        if (action.together) {  // gathered with the first of the pair
          list.push_back(action);
          continue;
        }
        CHECK(prefetch > 0 || length_of_step(actions, i) == 1,
              "{} and {} together need a prefetch of one unit", to_text(action), to_text(actions[i + 1]));
        std::vector<Place> needed;
        for (size_t j = i; j < actions.size() && needed.size() <= static_cast<size_t>(prefetch); ++j) {
          const Place place{actions[j].stage, actions[j].unit};
          if (uses(actions[j]) && std::ranges::find(needed, place) == needed.end()) needed.push_back(place);
        }
        drop_all_but(needed, action.microbatch);
        for (const Place& place : needed) {
          if (std::ranges::find(gathered, place) != gathered.end()) continue;
          list.push_back({ActionKind::GatherParameters, place.first, place.second, action.microbatch});
          gathered.push_back(place);
        }
      }
      list.push_back(action);
    }
    drop_all_but({}, schedule.microbatches - 1);
  });
}

Schedule with_gradient_reduction(const Schedule& schedule,
                                 const std::vector<std::vector<int>>& bucket_first_unit,
                                 const std::vector<TiedBucket>& tied, Reductions when) {
  return rewritten(schedule, [&](const std::vector<Action>& actions, std::vector<Action>& list) {
    // Where a unit's gradients become final, and those of each micro-batch.
    std::map<Place, size_t> last;
    std::vector<std::map<Place, size_t>> last_of(static_cast<size_t>(schedule.microbatches));
    for (size_t i = 0; i < actions.size(); ++i) {
      if (!finishes_weights(actions[i].kind)) continue;
      last[{actions[i].stage, actions[i].unit}] = i;
      last_of.at(static_cast<size_t>(actions[i].microbatch))[{actions[i].stage, actions[i].unit}] = i;
    }
    std::multimap<size_t, Action> reductions;  // by the action that they follow
    const auto reduce = [&](ActionKind kind, int bucket, const TiedBucket& units,
                            const std::map<Place, size_t>& final, int microbatch) {
      const size_t* after = nullptr;
      int stage = 0;
      for (const UnitPlace& place : units) {
        auto it = final.find({place.stage, place.unit});
        if (it == final.end()) it = final.find({place.stage, -1});
        if (it == final.end() || (after && *after >= it->second)) continue;
        after = &it->second;
        stage = place.stage;
      }
      if (after) reductions.insert({*after, {kind, stage, bucket, microbatch}});
    };
    for (size_t stage = 0; stage < bucket_first_unit.size(); ++stage)
      for (size_t bucket = 0; bucket < bucket_first_unit[stage].size(); ++bucket) {
        const TiedBucket units{{static_cast<int>(stage), bucket_first_unit[stage][bucket]}};
        const auto number = static_cast<int>(bucket), all = schedule.microbatches;
        if (when == Reductions::Once)
          reduce(ActionKind::ReduceGradients, number, units, last, all - 1);
        else
          for (int m = 0; m < all; ++m)
            reduce(ActionKind::ReduceGradients, number, units, last_of[static_cast<size_t>(m)], m);
      }
    for (size_t bucket = 0; bucket < tied.size(); ++bucket)
      reduce(ActionKind::ReduceTied, static_cast<int>(bucket), tied[bucket], last, schedule.microbatches - 1);
    for (size_t i = 0; i < actions.size(); ++i) {
      list.push_back(actions[i]);
      const auto [begin, end] = reductions.equal_range(i);
      for (auto it = begin; it != end; ++it) list.push_back(it->second);
    }
  });
}

}  // namespace tessera
