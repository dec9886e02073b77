// SPDX-License-Identifier: Apache-2.0
// What must hold between keys. Derived values are filled in first; then contradictions are refused, and
// last what no code supports, in one table that gets shorter as the project grows.
#pragma once
#include <string>
#include <vector>

#include "framework/config/reader.h"
#include "framework/config/run_config.h"

namespace tessera::config {

void derive_values(RunConfig& config, const Given& given);
void check_rules(const RunConfig& config, const Given& given, std::vector<std::string>& notes);
void refuse_unsupported(const RunConfig& config, const Given& given);

// A key, and what asking for it would need that is not built.
struct UnsupportedFeature {
  std::string key, what;
};
std::vector<UnsupportedFeature> unsupported_features();

// A contradiction: the key whose place is shown, and what is wrong. An empty text means none.
struct Problem {
  std::string key, text;
};

// Sets the [mesh] fields of train and lr_schedule for `dp` data ranks. Used with places while reading, and
// without them when the number of ranks is known.
Problem resolve_amounts(RunConfig& config, int64_t dp);

// Sizes that must divide over the mesh.
Problem check_mesh(const RunConfig& config);

}  // namespace tessera::config
