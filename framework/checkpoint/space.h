// SPDX-License-Identifier: Apache-2.0
// How much room checkpoints need, for the start of a run and for error messages.
#pragma once
#include <filesystem>
#include <optional>
#include <string>

#include "framework/checkpoint/tensor_map.h"
#include "framework/comm/communicator.h"

namespace tessera {

std::string size_text(int64_t bytes);  // "1234567 bytes (1.2 MiB)"

// Collective. What a checkpoint of these tensors will take on disk, over all ranks.
int64_t checkpoint_bytes(const TensorMap& tensors, Communicator& world);

// A sentence when the directory's file system cannot take `count` checkpoints of that size. Nothing when it
// can or does not say. The directory need not exist yet.
std::optional<std::string> space_warning(const std::filesystem::path& directory, int64_t bytes,
                                         int64_t count = 1);

}  // namespace tessera
