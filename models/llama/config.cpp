// SPDX-License-Identifier: Apache-2.0
#include "models/llama/config.h"

namespace tessera::llama {

DecoderConfig llama_config(const RunConfig& config) {
  return decoder_config(config);  // every matrix starts with initializer_range
}

}  // namespace tessera::llama
