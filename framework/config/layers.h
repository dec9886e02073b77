// SPDX-License-Identifier: Apache-2.0
// Puts the layers of a config on top of each other: base files, the file itself, --set arguments. Aliases
// are renamed within each layer, so that a layer above may use either name.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "framework/config/document.h"

namespace tessera::config {

struct Layers {
  Value root;
  std::vector<std::string> notes;
};

// `text` is the content of request.file, which is read when there is none.
Layers read_layers(const ConfigRequest& request, const std::string_view* text);

}  // namespace tessera::config
