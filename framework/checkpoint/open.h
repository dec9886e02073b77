// SPDX-License-Identifier: Apache-2.0
// Finds checkpoints and proves them before anything is used: the manifest against its own checksum and field
// by field, then every file against the size and checksum that the manifest lists, each by one rank. Rank 0
// looks at the file system and tells the others what to load; a fault on one rank is an error on all.
#pragma once
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "framework/base/log.h"
#include "framework/checkpoint/manifest.h"
#include "framework/comm/communicator.h"

namespace tessera {

// A checkpoint whose files were all found right.
struct Checkpoint {
  std::filesystem::path path;  // as this rank sees it
  std::shared_ptr<const Manifest> manifest;
  // Of each part: -1 when every rank can read it, else the rank that reads it for all. Empty: all -1.
  std::vector<int> served_by = {};

  Steps step() const { return manifest->step; }
  const std::string& state() const { return manifest->state; }  // the trainer's JSON object
};

struct OpenOptions {
  // false: ranks may see different directories under the same path, as SaveOptions::shared_fs says.
  bool shared_fs = true;
};

// Collective. Throws ExitCode::Data, naming the file, when the folder is no checkpoint or is damaged.
Checkpoint open_checkpoint(const std::filesystem::path& folder, Communicator& world, Log& log,
                           const OpenOptions& options = {});

// Collective. The newest whole checkpoint under `directory` (a run's checkpoints/). Damaged ones are named in
// the log and the one before is taken. Nothing when there are no checkpoints; throws ExitCode::Data when
// there are some and none is whole, because starting afresh over them would be wrong.
std::optional<Checkpoint> find_newest(const std::filesystem::path& directory, Communicator& world, Log& log,
                                      const OpenOptions& options = {});

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
