// SPDX-License-Identifier: Apache-2.0
// Reads one value into its field. Types are strict: "8", 8.0 and true are no integers, but an integer is
// also a number.
#pragma once
#include <string>

#include "framework/config/document.h"
#include "framework/config/schema.h"

namespace tessera::config {

// `path` is how messages name the key.
void read_value(const Key& key, const std::string& path, const Value& value, RunConfig& config, size_t index);

// An absolute path. Input paths start at the folder of the file that names them, output paths at the current
// folder.
std::string absolute_path(const std::string& path, Text kind, const Place& place);

}  // namespace tessera::config
