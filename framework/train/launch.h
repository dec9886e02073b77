// SPDX-License-Identifier: Apache-2.0
// How ranks come to be: a launcher started one process a rank, or the ranks are threads of this process.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace tessera {

struct LaunchInfo {
  bool launched = false;    // OMPI_COMM_WORLD_SIZE, PMIX_RANK or SLURM_PROCID is set
  std::optional<int> size;  // ranks, where the launcher says
  std::optional<int> rank;
  std::optional<int> local_size;  // ranks on this node
};
LaunchInfo read_launch(const std::function<std::optional<std::string>(const std::string&)>& environment);

// Memory that could still be had without swapping, in bytes.
int64_t available_memory_bytes();

// Threads of each rank: the configured number, or this node's cores over its ranks. Never more than the
// affinity mask allows; `warning` says so when it had to be cut.
int threads_of_rank(std::optional<int64_t> configured, int ranks_on_node, std::string& warning);

}  // namespace tessera
