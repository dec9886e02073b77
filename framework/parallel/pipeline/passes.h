// SPDX-License-Identifier: Apache-2.0
// Rewrites schedules: list in, list out. In this order, those that a run needs: recomputation, messages (both
// on lists of whole stages), units, offload, parameter gathers, gradient reduction.
#pragma once
#include <vector>

#include "framework/parallel/pipeline/schedule.h"

namespace tessera {

// The forwards of the stages that are named keep their input only, and run again right before their backward.
Schedule with_recomputation(const Schedule& schedule, const std::vector<bool>& stage_recomputes);

// Messages between stages on different ranks; on one rank a stage leaves its output to the next without one.
// The sender's list decides where the receive stands in the other rank's: before the work that the receiver
// does while the sender makes the message. So both lists name the messages between two ranks in one order,
// and a receive is there when its message comes, and hardly before.
Schedule with_messages(const Schedule& schedule);

// Replaces every action of a whole stage by its units: forwards in order, backwards in reverse. Of two that
// run together, each unit of one is together with one of the other, as long as both have some.
Schedule with_units(const Schedule& schedule, const std::vector<int>& units_of_stage);

// Pairs that run together become one action after the other.
Schedule one_by_one(Schedule schedule);

// What a forward leaves is away while `least_between` or more other pieces of work lie between it and the
// work that needs it (its backward, or the forward again): O stands right behind the forward, or behind the
// send of its output, and L one piece of work ahead of that need, so that the read goes on beside that piece.
// It still takes memory during the piece behind O, while it is written, and from L on, so that with 3 it is
// away during one at least, and with fewer during none. A pair that runs together is one piece. Of units or
// whole stages, as the list has them.
inline constexpr int kLeastWorkBetween = 3;
Schedule with_offload(const Schedule& schedule, int least_between = kLeastWorkBetween);

// Gathers each unit's parameters before the work that needs them (W too: a norm's output is made again from
// its gain) and drops them after it: those of the unit at work and of the next `prefetch` ones, never of
// more. Two units at work together need a `prefetch` of one.
Schedule with_parameter_gathers(const Schedule& schedule, int prefetch);

// A bucket that units of two stages add to, a tied embedding say: the units, anywhere on the pipeline.
struct UnitPlace {
  int stage = 0, unit = 0;
};
using TiedBucket = std::vector<UnitPlace>;

// When buckets are reduced: once a step, or after each micro-batch, where whole gradients do not last.
enum class Reductions : uint8_t { Once, EveryMicrobatch };

// Inserts ReduceGradients right after the action that makes a bucket's gradients final: the last backward of
// its first unit, which bucket_first_unit[stage][bucket] names, of the step or of each micro-batch. Inserts
// ReduceTied likewise on each rank that has units of a tied bucket, once, after the last backward of the last
// of them.
Schedule with_gradient_reduction(const Schedule& schedule,
                                 const std::vector<std::vector<int>>& bucket_first_unit,
                                 const std::vector<TiedBucket>& tied = {},
                                 Reductions reductions = Reductions::Once);

}  // namespace tessera
