// SPDX-License-Identifier: Apache-2.0
// Names of the GPT-2 family in Hugging Face checkpoints. Their linear weights are stored as [in, out], with
// query, key and value side by side.
#pragma once
#include "models/common/names.h"

namespace tessera::gpt {

std::optional<ForeignTensor> hugging_face_tensor(std::string_view ours);

}  // namespace tessera::gpt
