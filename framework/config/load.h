// SPDX-License-Identifier: Apache-2.0
// Reads a run's config file. Every key is known, typed and range-checked before anything is allocated; a
// fault throws Error(Usage) with the text `FILE:LINE:COL: what is wrong (did you mean 'x'?)`. Nothing is
// written and the environment is seen only through the function that is passed in.
#pragma once
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "framework/config/run_config.h"

namespace tessera {

using Environment = std::function<std::optional<std::string>(const std::string&)>;

struct ConfigRequest {
  std::filesystem::path file;
  std::vector<std::string> overrides;  // section.key=value, in order; the value as in TOML, or a bare word
  Environment environment = {};        // empty: every variable is unset
  bool saved = false;                  // of an earlier run: the schedule that it names is not read
};

struct LoadedConfig {
  RunConfig config;
  std::vector<std::string> notes;  // for the user: aliases that were accepted, keys without effect
};

LoadedConfig load_config(const ConfigRequest& request);

// The same for text in memory: request.file is only its name, and the folder that relative paths start at.
LoadedConfig parse_config(std::string_view text, const ConfigRequest& request);

// Every key with its value, as a file that --config reads back to the same RunConfig.
std::string to_toml(const RunConfig& config);

struct ConfigDifference {
  std::string key, before, after;  // section.key and values as TOML; "(absent)" where there is none
};
std::vector<ConfigDifference> differences(const RunConfig& before, const RunConfig& after);

// docs/config.md and docs/config.schema.json.
std::string reference_markdown();
std::string json_schema();

}  // namespace tessera
