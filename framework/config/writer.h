// SPDX-License-Identifier: Apache-2.0
// The values of a RunConfig as TOML text, key by key, in the order of the schema.
#pragma once
#include <functional>
#include <optional>
#include <string>

#include "framework/config/schema.h"

namespace tessera::config {

// Absent when the key has no value: an optional that is empty, or a derived size that is not known yet.
std::optional<std::string> value_text(const Key& key, const RunConfig& config, size_t index);

// The same by name, "parallel.tp"; empty when there is no value.
std::string value_text(const RunConfig& config, const std::string& path);

}  // namespace tessera::config
