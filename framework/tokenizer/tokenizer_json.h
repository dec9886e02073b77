// SPDX-License-Identifier: Apache-2.0
// Reader of tokenizer.json, the format of the Hugging Face `tokenizers` library, for models of byte pairs.
// The file is read strictly: a part whose meaning is not built here, or that would lose text, is an Error
// (exit 3) that names its place ("/pre_tokenizer/pretokenizers/0/type").
#pragma once
#include "framework/tokenizer/bpe_tokenizer.h"

namespace tessera {

// Everything but place, name and end_of_document. `file` begins messages.
BpeDefinition read_tokenizer_json(std::string_view content, const std::string& file);

}  // namespace tessera
