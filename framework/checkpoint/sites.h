// SPDX-License-Identifier: Apache-2.0
// Which ranks see the same directory. On shared storage that is all of them and rank 0 acts for all; on
// node-local disks each node is a site of its own, and its lowest rank creates, publishes and removes there.
#pragma once
#include <filesystem>
#include <vector>

#include "framework/comm/communicator.h"

namespace tessera {

struct Sites {
  std::vector<int> leader;  // of each rank: the lowest rank that sees the same directory
  int count() const;
  std::vector<int> ranks_of(int leading_rank) const;
};

// Collective. Creates `directory`. With `shared` it must be one directory: throws ExitCode::Data, naming the
// rank and the key, when a rank does not see what rank 0 writes there. Without, files that the ranks write
// for a moment tell them apart.
Sites find_sites(const std::filesystem::path& directory, bool shared, Communicator& world);

}  // namespace tessera
