// SPDX-License-Identifier: Apache-2.0
// From the tree of a config to its structs: known keys, right types, values in range, nothing missing.
#pragma once
#include <map>
#include <string>
#include <string_view>

#include "framework/config/document.h"
#include "framework/config/run_config.h"

namespace tessera::config {

// Which keys and sections were written, and where: "train", "train.steps", "data.sources[0].path".
class Given {
 public:
  void add(const std::string& path, const Place& place) { places_[path] = place; }
  bool has(const std::string& path) const { return places_.contains(path); }
  Place at(std::string path) const;  // of the key, else of its section, else of the file

 private:
  std::map<std::string, Place> places_;
};

RunConfig read_sections(const Value& root, Given& given);

}  // namespace tessera::config
