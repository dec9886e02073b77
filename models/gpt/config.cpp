// SPDX-License-Identifier: Apache-2.0
#include "models/gpt/config.h"

#include <cmath>

namespace tessera::gpt {

DecoderConfig gpt_config(const RunConfig& config) {
  DecoderConfig result = decoder_config(config);
  // Radford et al. 2019 (the GPT-2 paper), section 2.3: the weights of residual layers start smaller by
  // 1 / sqrt(N), N the number of residual layers; a block has two.
  result.residual_initial_std = result.initial_std / std::sqrt(2.0 * static_cast<double>(result.layers));
  return result;
}

}  // namespace tessera::gpt
