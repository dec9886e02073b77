// SPDX-License-Identifier: Apache-2.0
#include "models/gpt/layers.h"

#include "models/gpt/config.h"

namespace tessera::gpt {

ModelDefinition define_gpt(const RunConfig& config) {
  return define_decoder(gpt_config(config));
}

}  // namespace tessera::gpt
