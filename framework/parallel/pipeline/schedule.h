// SPDX-License-Identifier: Apache-2.0
// The order of work as plain data: for each rank a list of actions. Generators make lists, passes rewrite
// them (list in, list out), validate() proves them before they run, and one executor runs them. A run
// without a pipeline is the schedule of one stage; an evaluation is a schedule of forwards only.
#pragma once
#include <compare>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

enum class ActionKind : uint8_t {
  Forward,          // F
  BackwardInput,    // I: gradient of the input
  BackwardWeight,   // W: gradient of the parameters
  Backward,         // B: both
  ReduceGradients,  // R: the bucket whose gradients are final starts its reduction
};

// One piece of work. unit -1 is the whole stage. For ReduceGradients `unit` is the bucket and microbatch
// is the last one.
struct Action {
  ActionKind kind;
  int stage = 0;
  int unit = -1;
  int microbatch = 0;
  auto operator<=>(const Action&) const = default;
};

struct Schedule {
  int stages = 1;
  int microbatches = 1;
  std::vector<std::vector<Action>> by_rank;
};

// Forward and backward of each micro-batch in turn.
Schedule one_stage(int microbatches);
Schedule forward_only(int microbatches);

// Replaces every action of a whole stage by its units: forwards in order, backwards in reverse.
Schedule with_units(const Schedule& schedule, const std::vector<int>& units_of_stage);

// Inserts ReduceGradients right after the action that makes a bucket's gradients final: the backward of its
// first unit in the last micro-batch. bucket_first_unit[stage][bucket] names that unit.
Schedule with_gradient_reduction(const Schedule& schedule,
                                 const std::vector<std::vector<int>>& bucket_first_unit);

// Proves that every unit of every stage runs forward exactly once a micro-batch, and backward exactly once
// (as B, or as I then W) unless forward_only, after its forward and after the backward of the unit above;
// and that every bucket is reduced once, after its last backward. Throws with the table of actions and the
// offending one marked.
struct ValidationSizes {
  std::vector<int> units_of_stage;
  std::vector<std::vector<int>> bucket_first_unit;
  bool forward_only = false;
};
void validate(const Schedule& schedule, const ValidationSizes& sizes);

// "0F0 0B0" for whole stages (stage, kind, micro-batch), "0F0.3" names unit 3. One line a rank.
std::string to_text(const Action& action);
std::string to_text(const Schedule& schedule);
Schedule schedule_from_text(std::string_view text);

}  // namespace tessera
