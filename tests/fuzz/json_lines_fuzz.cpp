// SPDX-License-Identifier: Apache-2.0
// Crafted JSONL: each line is a document of its form or is refused, with a reason; what is text is valid
// UTF-8, and a mask has a 0 or 1 for each token.
#include <algorithm>
#include <cstdlib>
#include <string>

#include "framework/corpus/encode_job.h"
#include "framework/tokenizer/byte_tokenizer.h"
#include "framework/tokenizer/utf8.h"

namespace {

using namespace tessera;

void check(const EncodedDocuments& result, const ByteTokenizer& tokenizer, LineForm form) {
  size_t begin = 0;
  for (const auto& document : result.documents) {
    const std::span<const int32_t> ids(result.ids.data() + begin, document.end - begin);
    const std::string content = tokenizer.decode(ids);
    if (content.empty() && form != LineForm::Chat) std::abort();
    if (valid_utf8(content) != content.size() || ids.back() != 256) std::abort();
    begin = document.end;
  }
  if (begin != result.ids.size()) std::abort();
  if (result.mask.size() != (form == LineForm::Text ? 0 : result.ids.size())) std::abort();
  if (std::any_of(result.mask.begin(), result.mask.end(), [](uint8_t m) { return m > 1; })) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const ByteTokenizer tokenizer;
  const std::string text(reinterpret_cast<const char*>(data), size);
  for (const LineForm form : {LineForm::Text, LineForm::Completion, LineForm::Chat}) {
    for (const Invalid invalid : {Invalid::Fail, Invalid::Skip, Invalid::Replace}) {
      const DocumentOptions options{
          .form = form,
          .chat = {.roles = {{"user", 256}, {"assistant", 256}}, .end_of_turn = 256},
          .invalid = invalid};
      DocumentEncoder encoder(tokenizer, options);
      EncodedDocuments result;
      encoder.run({.kind = EncodeJob::Kind::Lines, .text = text, .file = "file", .place = 1}, result);
      if (result.error && (invalid != Invalid::Fail || result.error->code() != ExitCode::Data)) std::abort();
      check(result, tokenizer, form);
    }
  }
  return 0;
}
