// SPDX-License-Identifier: Apache-2.0
// The GPT-2 family: what its keys mean beyond a decoder.
#pragma once
#include "models/common/decoder.h"

namespace tessera::gpt {

DecoderConfig gpt_config(const RunConfig& config);

}  // namespace tessera::gpt
