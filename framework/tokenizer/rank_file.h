// SPDX-License-Identifier: Apache-2.0
// Reader of tiktoken files: lines of "BASE64 RANK", where the rank of a token is its id, and two neighbours
// join when their bytes are a token, lowest rank first. Such a file says neither the pattern nor the control
// tokens: both follow from the family, which the number of ranks tells for published files.
#pragma once
#include "framework/tokenizer/bpe_tokenizer.h"

namespace tessera {

// Everything but place, name and end_of_document. `pattern`: "gpt2", "cl100k", "llama3", "qwen" or "o200k";
// empty: by the number of ranks.
BpeDefinition read_rank_file(std::string_view content, const std::string& file, std::string_view pattern);

}  // namespace tessera
