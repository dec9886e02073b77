// SPDX-License-Identifier: Apache-2.0
// Reads checkpoints back, on any mesh. No byte is used before it is checked: the manifest against its own
// checksum and field by field, then every file against the manifest's size and checksum, each by one rank.
// Tensor bytes are read at the places that the manifest gives, never through HDF5. Rank 0 looks at the file
// system and tells the others what to load; a fault on one rank is an error on all.
#pragma once
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "framework/base/log.h"
#include "framework/checkpoint/manifest.h"
#include "framework/checkpoint/tensor_map.h"
#include "framework/comm/communicator.h"
#include "framework/ops/backend.h"

namespace tessera {

// A checkpoint whose files were all found right.
struct Checkpoint {
  std::filesystem::path path;
  std::shared_ptr<const Manifest> manifest;
  Steps step() const { return manifest->step; }
  const std::string& state() const { return manifest->state; }  // the trainer's JSON object
};

// Collective. Throws ExitCode::Data, naming the file, when the folder is no checkpoint or is damaged.
Checkpoint open_checkpoint(const std::filesystem::path& folder, Communicator& world, Log& log);

// Collective. The newest whole checkpoint under `directory` (a run's checkpoints/). Damaged ones are named in
// the log and the one before is taken. Nothing when there are no checkpoints; throws ExitCode::Data when
// there are some and none is whole, because starting afresh over them would be wrong.
std::optional<Checkpoint> find_newest(const std::filesystem::path& directory, Communicator& world, Log& log);

// Collective. Fills the pieces of every wanted tensor. Shapes must agree. Types must too, except that
// parameters and masters follow a change of the compute type: fp32 parameters are read from the masters, a
// missing master from an fp32 parameter, and parameters of another type are rounded from the masters.
// Returns the names in the checkpoint that no rank wanted.
std::vector<std::string> load_tensors(const Checkpoint& checkpoint, const TensorMap& wanted,
                                      Communicator& world, Backend& backend);

// Without ranks, for tools. The checkpoint that a user means by a path: a checkpoint's folder, or the newest
// one (not yet checked) of a run's folder or of its checkpoints/. Throws ExitCode::Data when there is none.
std::filesystem::path checkpoint_folder(const std::filesystem::path& path);
// Reads and checks the manifest only. Throws ExitCode::Data, naming the file.
Manifest read_manifest(const std::filesystem::path& folder);
// Reads one file of the folder from front to back; throws unless size and checksum are as listed.
void check_file(const std::filesystem::path& folder, const StoredFile& listed);
// Reads the bytes of every piece of a tensor; throws unless each has its checksum.
void check_pieces(const std::filesystem::path& folder, const Manifest& manifest, const std::string& tensor);

}  // namespace tessera
