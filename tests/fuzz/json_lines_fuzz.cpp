// SPDX-License-Identifier: Apache-2.0
// Crafted JSONL: each line is text or is refused, with a reason; what is text is valid UTF-8.
#include <cstdlib>
#include <string>

#include "framework/corpus/encode_job.h"
#include "framework/tokenizer/byte_tokenizer.h"
#include "framework/tokenizer/utf8.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tessera;
  static const ByteTokenizer tokenizer;
  const std::string text(reinterpret_cast<const char*>(data), size);
  for (const Invalid invalid : {Invalid::Fail, Invalid::Skip, Invalid::Replace}) {
    const DocumentOptions options{.text_key = "text", .invalid = invalid};
    DocumentEncoder encoder(tokenizer, options);
    EncodedDocuments result;
    encoder.run({.kind = EncodeJob::Kind::Lines, .text = text, .file = "file", .place = 1}, result);
    if (result.error && (invalid != Invalid::Fail || result.error->code() != ExitCode::Data)) std::abort();
    size_t begin = 0;
    for (const auto& document : result.documents) {
      const std::span<const int32_t> ids(result.ids.data() + begin, document.end - begin);
      const std::string content = tokenizer.decode(ids);
      if (content.empty() || valid_utf8(content) != content.size() || ids.back() != 256) std::abort();
      begin = document.end;
    }
    if (begin != result.ids.size()) std::abort();
  }
  return 0;
}
