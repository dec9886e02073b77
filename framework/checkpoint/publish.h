// SPDX-License-Identifier: Apache-2.0
// The last act of a save, by one rank, when all parts are written, synced and verified: index.h5, then
// manifest.json, then the one rename that makes the folder a checkpoint.
#pragma once
#include <filesystem>

#include "framework/checkpoint/manifest.h"

namespace tessera {

// Writes index.h5 and manifest.json into `working` (filling in manifest.index), syncs the folder and renames
// it to `published`.
void publish(const std::filesystem::path& working, const std::filesystem::path& published, Manifest& manifest,
             bool verify);

}  // namespace tessera
