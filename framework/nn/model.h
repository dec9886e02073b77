// SPDX-License-Identifier: Apache-2.0
// A model as planner and trainer see it: a table of parameters and a chain of units. A unit is the smallest
// scheduled piece: unit 0 is the embedding, then one unit a block, the last is the head with the loss.
// The embedding reads Batch::tokens and ignores its input; the head returns per-token losses in Train and
// Eval, adds their weighted sum to Context::loss_total, ignores the gradient passed to its backward (it
// starts from StepInfo::loss_scale) and returns logits [n, vocab] in Decode.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "framework/nn/module.h"

namespace tessera {

// Which parts of a block run again in backward instead of being kept. Never changes a bit.
struct Recompute {
  bool block = false;           // all of it: only the block's input is kept
  bool attention = false;       // what lies between the projections
  bool mlp_activation = false;  // the activation's output
};

// Constant tensors (rotary angles) that the units of a rank share, each made by the first unit that asks.
using Constants = std::map<std::string, Tensor, std::less<>>;

class Communicator;
enum class SequenceMode : uint8_t;  // nn/attention_core.h

// The groups that a unit is cut over; null: one rank. The communicators outlive the unit.
struct UnitGroups {
  Communicator* tensor = nullptr;
  Communicator* sequence = nullptr;
  SequenceMode sequence_mode = {};
  bool sequence_parallel = false;  // hidden states are cut by rows over the tensor ranks
  bool regather_inputs = true;     // a column linear keeps its own rows and gathers again in backward
};

struct UnitOptions {
  Backend& backend;  // constants are made on it
  DType compute;
  int64_t sequence_length;
  uint64_t seed;                   // of dropout
  Recompute recompute = {};        // of this unit; the embedding and the head ignore it
  Constants* constants = nullptr;  // null: the unit makes its own
  UnitGroups groups = {};
};

struct ModelDefinition {
  std::vector<ParameterSpec> parameters;  // in unit order
  std::vector<std::string> unit_names;    // "embedding", "blocks.0", ..., "head"
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;  // columns of what units pass on
  int64_t kv_width = 0;     // kv_heads * head_dim, for caches
  // Builds one unit on the weights of a store that holds at least the unit's parameters.
  std::function<std::unique_ptr<Module>(int unit, const ParameterStore&, const UnitOptions&)> build_unit;

  int unit_count() const { return static_cast<int>(unit_names.size()); }
};

}  // namespace tessera
