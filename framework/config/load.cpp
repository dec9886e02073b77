// SPDX-License-Identifier: Apache-2.0
#include "framework/config/load.h"

#include "framework/config/layers.h"
#include "framework/config/reader.h"
#include "framework/config/rules.h"

namespace tessera {
namespace {

LoadedConfig load(const ConfigRequest& request, const std::string_view* text) {
  config::Layers layers = config::read_layers(request, text);
  config::Given given;
  LoadedConfig loaded{config::read_sections(layers.root, given), std::move(layers.notes)};
  config::derive_values(loaded.config, given);
  config::check_rules(loaded.config, given, loaded.notes);
  config::refuse_unsupported(loaded.config, given);
  return loaded;
}

}  // namespace

LoadedConfig load_config(const ConfigRequest& request) {
  return load(request, nullptr);
}

LoadedConfig parse_config(std::string_view text, const ConfigRequest& request) {
  return load(request, &text);
}

}  // namespace tessera
