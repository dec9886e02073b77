// SPDX-License-Identifier: Apache-2.0
#include "framework/config/load.h"

#include "framework/config/file_text.h"
#include "framework/config/layers.h"
#include "framework/config/reader.h"
#include "framework/config/rules.h"

namespace tessera {
namespace {

// A schedule that is no form is a file: `allowed` of the schema has let only names and paths through.
void read_schedule_file(ParallelSection& parallel, const config::Given& given) {
  if (!std::filesystem::path(parallel.schedule).is_absolute()) return;
  const config::FileText file = config::read_file(parallel.schedule);
  const config::Place place = given.at("parallel.schedule");
  if (!file.problem.empty())
    config::fail_at(place, "parallel.schedule {}: {}", parallel.schedule, file.problem);
  if (file.text.size() > config::kLongestText)
    config::fail_at(place, "parallel.schedule {}: it is longer than {} bytes", parallel.schedule,
                    config::kLongestText);
  if (file.text.empty()) config::fail_at(place, "parallel.schedule {}: it is empty", parallel.schedule);
  parallel.schedule_text = file.text;
}

LoadedConfig load(const ConfigRequest& request, const std::string_view* text) {
  config::Layers layers = config::read_layers(request, text);
  config::Given given;
  LoadedConfig loaded{config::read_sections(layers.root, given), std::move(layers.notes)};
  if (!request.saved) read_schedule_file(loaded.config.parallel, given);
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
