// SPDX-License-Identifier: Apache-2.0
#include "framework/tokenizer/tokenizer.h"

#include "framework/base/check.h"
#include "framework/tokenizer/bpe_tokenizer.h"
#include "framework/tokenizer/byte_tokenizer.h"
#include "framework/tokenizer/tokenizer_file.h"
#include "framework/tokenizer/utf8.h"

namespace tessera {

std::vector<int32_t> Tokenizer::encode(std::string_view document) const {
  std::vector<int32_t> ids;
  const std::unique_ptr<Encoder> encoder = this->encoder();
  encoder->add(document, ids);
  encoder->end(ids);
  return ids;
}

std::string Tokenizer::decode(std::span<const int32_t> ids) const {
  std::string text;
  for (const int32_t id : ids) text += text_of(id);
  if (const std::string_view prefix = document_prefix(); !prefix.empty() && text.starts_with(prefix))
    text.erase(0, prefix.size());
  return text;
}

std::string StreamDecoder::add(int32_t id) {
  rest_ += tokenizer_.text_of(id);
  size_t whole = 0;
  while (whole < rest_.size()) {
    const int length = utf8_length(std::string_view(rest_).substr(whole, 4));
    if (length < 0) break;
    whole += static_cast<size_t>(length > 0 ? length : 1);
  }
  std::string text = rest_.substr(0, whole);
  rest_.erase(0, whole);
  return text;
}

std::string StreamDecoder::end() {
  return std::exchange(rest_, {});
}

std::unique_ptr<Tokenizer> make_tokenizer(std::string_view type, const TokenizerOptions& options) {
  if (type == "bytes") {
    CHECK_AS(ExitCode::Usage, options.path.empty(), "the tokenizer \"bytes\" reads no file, but path is '{}'",
             options.path.string());
    CHECK_AS(ExitCode::Usage, options.end_of_document.empty() && options.pattern.empty(),
             "the tokenizer \"bytes\" has one end of a document and no pattern");
    return std::make_unique<ByteTokenizer>();
  }
  CHECK_AS(ExitCode::Usage, type == "bpe", "unknown tokenizer \"{}\" (known: bytes, bpe)", type);
  CHECK_AS(ExitCode::Usage, !options.path.empty(), "the tokenizer \"bpe\" needs the path of its file");
  return std::make_unique<BpeTokenizer>(read_tokenizer_file(options));
}

}  // namespace tessera
