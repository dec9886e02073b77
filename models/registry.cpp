// SPDX-License-Identifier: Apache-2.0
#include "models/registry.h"

#include "framework/config/names.h"
#include "models/gpt/layers.h"
#include "models/llama/layers.h"

namespace tessera {
namespace {

struct Family {
  const char* architecture;
  ModelDefinition (*define)(const RunConfig&);
};
constexpr Family kFamilies[] = {
    {"gpt", gpt::define_gpt},
    {"llama", llama::define_llama},
};

}  // namespace

std::vector<std::string> model_architectures() {
  std::vector<std::string> names;
  for (const Family& family : kFamilies) names.emplace_back(family.architecture);
  return names;
}

ModelDefinition define_model(const RunConfig& config) {
  const std::string& wanted = config.model.architecture;
  for (const Family& family : kFamilies)
    if (wanted == family.architecture) return family.define(config);
  fail(ExitCode::Usage, "model.architecture = \"{}\" is not a family of models/{}", wanted,
       config::did_you_mean(wanted, model_architectures()));
}

}  // namespace tessera
