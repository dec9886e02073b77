// SPDX-License-Identifier: Apache-2.0
// Names of the Llama family in Hugging Face checkpoints; the norms of query and key heads are Qwen3's.
#pragma once
#include "models/common/names.h"

namespace tessera::llama {

std::optional<ForeignTensor> hugging_face_tensor(std::string_view ours);

}  // namespace tessera::llama
