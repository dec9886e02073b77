// SPDX-License-Identifier: Apache-2.0
// What `tessera compare` prints.
#pragma once
#include <string>

#include "framework/config/load.h"
#include "framework/train/compare.h"

namespace tessera {

// A line a layout, and for one that differs where and how.
std::string compare_text(const CompareResult& result);

// The same as one JSON object; `shrunk` names the keys that --shrink changed.
std::string compare_json(const CompareResult& result, const std::vector<ConfigDifference>& shrunk);

}  // namespace tessera
