// SPDX-License-Identifier: Apache-2.0
// What the reference page and the JSON Schema share.
#pragma once
#include <string>

#include "framework/config/schema.h"

namespace tessera::config {

// The default of a key as TOML, for one family of models; empty when it has none.
std::string default_value(const Section& section, const Key& key, const std::string& architecture);

}  // namespace tessera::config
