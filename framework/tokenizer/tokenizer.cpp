// SPDX-License-Identifier: Apache-2.0
#include "framework/tokenizer/tokenizer.h"

#include "framework/base/check.h"
#include "framework/tokenizer/byte_tokenizer.h"

namespace tessera {

std::unique_ptr<Tokenizer> make_tokenizer(std::string_view type, const std::filesystem::path& path) {
  if (type == "bytes") {
    CHECK_AS(ExitCode::Usage, path.empty(), "the tokenizer \"bytes\" reads no file, but path is '{}'",
             path.string());
    return std::make_unique<ByteTokenizer>();
  }
  if (type == "bpe") fail(ExitCode::Usage, "the tokenizer \"bpe\" is not built yet; use \"bytes\"");
  fail(ExitCode::Usage, "unknown tokenizer \"{}\" (known: bytes)", type);
}

}  // namespace tessera
