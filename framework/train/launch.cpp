// SPDX-License-Identifier: Apache-2.0
#include "framework/train/launch.h"

#include <algorithm>
#include <charconv>
#include <fstream>

#include "framework/base/check.h"
#include "framework/base/cores.h"

namespace tessera {
namespace {

std::optional<int> number(const std::optional<std::string>& text) {
  if (!text) return std::nullopt;
  int value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  // SLURM_TASKS_PER_NODE and the like carry suffixes such as "4(x2)": the leading number is this node's.
  return error == std::errc() && end != text->data() ? std::optional(value) : std::nullopt;
}

}  // namespace

LaunchInfo read_launch(const std::function<std::optional<std::string>(const std::string&)>& environment) {
  LaunchInfo launch;
  if (environment("OMPI_COMM_WORLD_SIZE")) {
    launch = {.launched = true,
              .size = number(environment("OMPI_COMM_WORLD_SIZE")),
              .rank = number(environment("OMPI_COMM_WORLD_RANK")),
              .local_size = number(environment("OMPI_COMM_WORLD_LOCAL_SIZE"))};
  } else if (environment("SLURM_PROCID")) {
    launch = {.launched = true,
              .size = number(environment("SLURM_NTASKS")),
              .rank = number(environment("SLURM_PROCID")),
              .local_size = number(environment("SLURM_NTASKS_PER_NODE"))};
  } else if (environment("PMIX_RANK")) {
    launch = {.launched = true, .size = {}, .rank = number(environment("PMIX_RANK")), .local_size = {}};
  }
  return launch;
}

int64_t available_memory_bytes() {
  std::ifstream file("/proc/meminfo");
  for (std::string key, unit; file >> key;) {
    int64_t kibibytes = 0;
    file >> kibibytes;
    std::getline(file, unit);
    if (key == "MemAvailable:") return kibibytes * 1024;
  }
  return 0;
}

int threads_of_rank(std::optional<int64_t> configured, int ranks_on_node, std::string& warning) {
  const int cores = available_cores();
  const int share = std::max(1, cores / std::max(1, ranks_on_node));
  if (!configured) return share;
  if (*configured <= cores) return static_cast<int>(*configured);
  warning = fmt::format(
      "run.threads_per_rank = {}, but this process may run on {} core{} only (its affinity mask): using {}",
      *configured, cores, cores == 1 ? "" : "s", cores);
  return cores;
}

}  // namespace tessera
