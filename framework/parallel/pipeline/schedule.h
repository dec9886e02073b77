// SPDX-License-Identifier: Apache-2.0
// The order of work as plain data: for each rank a list of actions. Generators make lists (generate.h),
// passes rewrite them (passes.h), validate() proves them before they run (validate.h), simulate() says what
// they will take, and one executor runs them. A run without a pipeline is the schedule of one stage; an
// evaluation is a schedule of forwards only.
#pragma once
#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

enum class ActionKind : uint8_t {
  Forward,              // F
  BackwardInput,        // I: gradient of the input
  BackwardWeight,       // W: gradient of the parameters
  Backward,             // B: both
  ForwardKeepingInput,  // K: a forward that leaves its input only
  Recompute,            // C: that forward again, from its input, right before the backward
  ReduceGradients,      // R: the bucket whose gradients are final starts its reduction
  ReduceTied,           // T: the same for a bucket that two stages add to; all their ranks take part
  SendActivation,       // SA: the output of this stage leaves for the next one
  ReceiveActivation,    // RA: the input of this stage may arrive
  SendGradient,         // SG: the gradient of this stage's input leaves for the stage before
  ReceiveGradient,      // RG: the gradient of this stage's output may arrive
  GatherParameters,     // G: the unit's parameters are gathered from their shards
  DropParameters,       // D: and given up again
  Offload,              // O: what the forward left goes to the rank's store of activations
  Reload,               // L: and comes back
};

constexpr bool is_work(ActionKind kind) {
  return kind <= ActionKind::Recompute;
}
constexpr bool is_forward(ActionKind kind) {
  return kind == ActionKind::Forward || kind == ActionKind::ForwardKeepingInput;
}
constexpr bool starts_backward(ActionKind kind) {
  return kind == ActionKind::Backward || kind == ActionKind::BackwardInput;
}
constexpr bool finishes_weights(ActionKind kind) {
  return kind == ActionKind::Backward || kind == ActionKind::BackwardWeight;
}
// What a forward has left moves between memory and store.
constexpr bool is_transfer(ActionKind kind) {
  return kind == ActionKind::Offload || kind == ActionKind::Reload;
}
constexpr bool is_message(ActionKind kind) {
  return kind >= ActionKind::SendActivation && kind <= ActionKind::ReceiveGradient;
}

// One piece of work. unit -1 is the whole stage; messages always have it. For ReduceGradients `unit` is the
// bucket of the stage, for ReduceTied the tied bucket; their microbatch is the last one. `together` joins a
// backward, B or I, to the forward of another micro-batch right before it: the two begin when both can, and
// each goes on where the other waits for a collective (FB).
struct Action {
  ActionKind kind;
  int stage = 0;
  int unit = -1;
  int microbatch = 0;
  bool together = false;
  auto operator<=>(const Action&) const = default;
};

// The number of actions from `at` on that a rank does as one: a pair that runs together, or a single one.
constexpr size_t length_of_step(std::span<const Action> actions, size_t at) {
  return at + 1 < actions.size() && actions[at + 1].together ? 2 : 1;
}
// Whether `second` may be together with `first` before it.
constexpr bool can_be_together(const Action& first, const Action& second) {
  return is_forward(first.kind) && starts_backward(second.kind) && first.microbatch != second.microbatch &&
         (first.unit < 0) == (second.unit < 0);
}

constexpr bool is_receive(ActionKind kind) {
  return kind == ActionKind::ReceiveActivation || kind == ActionKind::ReceiveGradient;
}
// The stage at the other end of a message.
constexpr int other_end(const Action& message) {
  const bool up = message.kind == ActionKind::SendActivation || message.kind == ActionKind::ReceiveGradient;
  return up ? message.stage + 1 : message.stage - 1;
}
// The receive that a send meets.
constexpr Action receive_of(const Action& send) {
  const bool up = send.kind == ActionKind::SendActivation;
  return {up ? ActionKind::ReceiveActivation : ActionKind::ReceiveGradient, other_end(send), -1,
          send.microbatch};
}

struct Schedule {
  int stages = 1;
  int microbatches = 1;
  std::vector<int> rank_of_stage = {0};
  std::vector<std::vector<Action>> by_rank;
};

// Forward and backward of each micro-batch in turn.
Schedule one_stage(int microbatches);
Schedule forward_only(int microbatches);

// "0F0 0B0" for whole stages (stage, kind, micro-batch), "0F0.3" names unit 3, "0F1 +0B0" runs the two
// together. One line a rank; a line that
// starts with # is a comment, and an empty line after a rank ends the lists. Stages live where their work
// stands, on -1 when they have none. A word that is no action: exit code 2, with its line and column.
std::string to_text(const Action& action);
std::string to_text(const Schedule& schedule);
std::optional<Action> action_from_text(std::string_view word);
Schedule schedule_from_text(std::string_view text);

// Where each action of a text stands, and, one behind the last, where each rank's list ends.
struct TextPlace {
  int line = 1, column = 1;
};
struct PlacedSchedule {
  Schedule schedule;
  std::vector<std::vector<TextPlace>> places = {};
};
// The same for the text of a file, whose name begins the texts of errors: "FILE:LINE:COL: ".
PlacedSchedule placed_schedule_from_text(std::string_view text, std::string_view file);

}  // namespace tessera
