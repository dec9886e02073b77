// SPDX-License-Identifier: Apache-2.0
#include "framework/config/names.h"

#include <fmt/core.h>

#include <algorithm>

namespace tessera::config {

size_t edit_distance(std::string_view from, std::string_view to) {
  // Three rows of the usual table: a swap looks two rows back.
  std::vector<size_t> before(to.size() + 1), above(to.size() + 1), row(to.size() + 1);
  for (size_t j = 0; j <= to.size(); ++j) above[j] = j;
  for (size_t i = 1; i <= from.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= to.size(); ++j) {
      const size_t replace = above[j - 1] + (from[i - 1] == to[j - 1] ? 0 : 1);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, replace});
      if (i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before.swap(above);
    above.swap(row);
  }
  return above[to.size()];
}

std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates) {
  constexpr size_t kLongestName = 64;  // a longer one is no spelling mistake
  if (name.size() > kLongestName) return {};
  const size_t allowed = std::max<size_t>(1, name.size() / 3);
  std::string nearest;
  size_t fewest = allowed + 1;
  for (const std::string& candidate : candidates) {
    const size_t edits = edit_distance(name, candidate);
    if (edits < fewest && edits < candidate.size()) {
      fewest = edits;
      nearest = candidate;
    }
  }
  return nearest;
}

std::string did_you_mean(std::string_view name, const std::vector<std::string>& candidates) {
  const std::string nearest = nearest_name(name, candidates);
  return nearest.empty() ? std::string() : fmt::format(" (did you mean '{}'?)", nearest);
}

}  // namespace tessera::config
