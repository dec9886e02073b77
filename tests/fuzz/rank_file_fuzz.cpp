// SPDX-License-Identifier: Apache-2.0
// Crafted files of ranks: refused with exit code 3, or tokens, merges and ids within bounds.
#include <cstdlib>
#include <string>

#include "framework/base/check.h"
#include "framework/tokenizer/rank_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tessera;
  try {
    const BpeDefinition definition =
        read_rank_file({reinterpret_cast<const char*>(data), size}, "file", "cl100k");
    const auto tokens = static_cast<int32_t>(definition.vocabulary.tokens.size());
    for (const Merge& merge : definition.vocabulary.merges) {
      if (merge.left < 0 || merge.right < 0 || merge.left >= tokens || merge.right >= tokens) std::abort();
      if (definition.vocabulary.tokens[static_cast<size_t>(merge.left)] +
              definition.vocabulary.tokens[static_cast<size_t>(merge.right)] !=
          definition.vocabulary.tokens[static_cast<size_t>(merge.result)])
        std::abort();
    }
    if (definition.vocab_size != tokens + 1) std::abort();
  } catch (const Error& error) {
    if (error.code() != ExitCode::Data) std::abort();
  }
  return 0;
}
