// SPDX-License-Identifier: Apache-2.0
#include "models/llama/layers.h"

#include "models/llama/config.h"

namespace tessera::llama {

ModelDefinition define_llama(const RunConfig& config) {
  return define_decoder(llama_config(config));
}

}  // namespace tessera::llama
