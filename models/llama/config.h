// SPDX-License-Identifier: Apache-2.0
// The Llama family: what its keys mean beyond a decoder.
#pragma once
#include "models/common/decoder.h"

namespace tessera::llama {

DecoderConfig llama_config(const RunConfig& config);

}  // namespace tessera::llama
