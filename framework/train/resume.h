// SPDX-License-Identifier: Apache-2.0
// Where a run goes on from: which checkpoint, whether the config may have changed since, and the state that
// is not a tensor. Every decision is rank 0's, agreed by all.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "framework/checkpoint/load.h"
#include "framework/checkpoint/tensor_map.h"
#include "framework/optim/loss_scale.h"
#include "framework/train/rank.h"
#include "framework/train/trainer.h"

namespace tessera {

// What a checkpoint holds besides tensors.
struct TrainState {
  Steps step{0};  // finished
  Tokens seen_tokens{0};
  int64_t updates = 0;  // of the optimizer; fewer than steps when some were skipped
  int64_t skipped_empty_batches = 0;
  LossScaler::State loss_scale;
  std::string data_cursor;
  std::string config;  // resolved TOML
};
std::string to_json(const TrainState& state, int64_t seed);
TrainState state_from_json(const std::string& text);  // throws Error(Data)

// Collective. The checkpoint that the policy asks for, or nothing for a fresh start. Throws Error(Usage) for
// `none` on a folder that holds a run, Error(Data) for `required` without a checkpoint.
std::optional<Checkpoint> find_checkpoint(const TrainRequest& request, Communicator& world, Log& log);

// Lists each key that differs from the checkpoint's run in the log. Throws Error(Usage) when one of them
// needs --allow-change and does not have it.
void check_changes(const std::string& saved_config, const TrainRequest& request, Log& log);

// This rank's tensors in logical form: parameters, masters where they are apart, optimizer state. For saving,
// the ranks that hold copies share them; for loading, each rank names all that it holds.
enum class TensorsFor : uint8_t { Saving, Loading };
TensorMap tensors_of(Rank& rank, TensorsFor purpose);

}  // namespace tessera
