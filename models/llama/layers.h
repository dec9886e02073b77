// SPDX-License-Identifier: Apache-2.0
// The Llama family as a table of parameters and a chain of units.
#pragma once
#include "framework/config/run_config.h"
#include "framework/nn/model.h"

namespace tessera::llama {

ModelDefinition define_llama(const RunConfig& config);

}  // namespace tessera::llama
