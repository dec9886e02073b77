// SPDX-License-Identifier: Apache-2.0
// Finds out which kind of tokenizer file a path names and reads it. What a file leaves open, such as which
// token ends a document, is decided here.
#pragma once
#include "framework/tokenizer/bpe_tokenizer.h"

namespace tessera {

// The whole definition. Throws (exit 3) with the file and the place for anything missing, damaged or not
// known.
BpeDefinition read_tokenizer_file(const TokenizerOptions& options);

}  // namespace tessera
