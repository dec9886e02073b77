// SPDX-License-Identifier: Apache-2.0
// The families of models/, by model.architecture. registry.cpp is the only list of them.
#pragma once
#include <string>
#include <vector>

#include "framework/config/run_config.h"
#include "framework/nn/model.h"

namespace tessera {

// An unknown architecture is a usage error that names the nearest one.
ModelDefinition define_model(const RunConfig& config);

std::vector<std::string> model_architectures();

}  // namespace tessera
