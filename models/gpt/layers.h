// SPDX-License-Identifier: Apache-2.0
// The GPT-2 family as a table of parameters and a chain of units.
#pragma once
#include "framework/config/run_config.h"
#include "framework/nn/model.h"

namespace tessera::gpt {

ModelDefinition define_gpt(const RunConfig& config);

}  // namespace tessera::gpt
