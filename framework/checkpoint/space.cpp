// SPDX-License-Identifier: Apache-2.0
#include "framework/checkpoint/space.h"

#include <algorithm>

#include "framework/checkpoint/file.h"
#include "framework/checkpoint/save_plan.h"

namespace tessera {

std::string size_text(int64_t bytes) {
  return fmt::format("{} bytes ({:.1f} MiB)", bytes, static_cast<double>(bytes) / (1024.0 * 1024.0));
}

int64_t checkpoint_bytes(const TensorMap& tensors, Communicator& world) {
  const Sites one{std::vector<int>(static_cast<size_t>(world.size()), 0)};
  return make_save_plan(world.all_gather_host(declaration_of(tensors)), world.size(), one).estimated_bytes();
}

std::optional<std::string> space_warning(const std::filesystem::path& directory, int64_t bytes,
                                         int64_t count) {
  // The directory need not exist yet: what counts is the file system under its nearest existing parent.
  std::filesystem::path place = std::filesystem::absolute(directory);
  std::error_code error;
  while (!std::filesystem::exists(place, error) && place != place.parent_path()) place = place.parent_path();
  const std::optional<int64_t> free = free_bytes(place);
  if (!free || *free / std::max<int64_t>(count, 1) >= bytes) return std::nullopt;
  return fmt::format("{} of checkpoints ({} each) will not fit in {}: {} are free", count, size_text(bytes),
                     directory.string(), size_text(*free));
}

}  // namespace tessera
