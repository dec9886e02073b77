// SPDX-License-Identifier: Apache-2.0
// The nearest known name for a misspelt one.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace tessera::config {

// Edits (insert, drop, replace, swap of neighbours) from one name to the other.
size_t edit_distance(std::string_view from, std::string_view to);

// The candidate with the fewest edits; empty when none is close enough to be what was meant.
std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates);

// " (did you mean 'x'?)" or nothing.
std::string did_you_mean(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace tessera::config
