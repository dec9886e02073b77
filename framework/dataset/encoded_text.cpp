// SPDX-License-Identifier: Apache-2.0
#include "framework/dataset/encoded_text.h"

#include <algorithm>

#include "framework/base/check.h"
#include "framework/dataset/fingerprint.h"
#include "framework/dataset/text_files.h"

namespace tessera {

EncodedText::EncodedText(const std::filesystem::path& path, const EncodeDocument& encode) {
  const std::vector<InputFile> files = list_input_files(path);
  for (const InputFile& file : files) bytes_ += file.size;
  CHECK_AS(
      ExitCode::Data, bytes_ <= kMostBytes,
      "{} has {} bytes of text, and up to {} are encoded at the start of a run: make token files of it with "
      "`tessera tokenize`",
      path.string(), bytes_, kMostBytes);
  std::string text;
  for (const InputFile& input : files) {
    if (input.size == 0) continue;
    const File file = File::open_to_read(input.path);
    text.resize(static_cast<size_t>(input.size));
    file.read(0, std::as_writable_bytes(std::span(text)));
    encode(text, ids_);
    ends_.push_back(tokens());
  }
}

int64_t EncodedText::document_end(int64_t document) const {
  CHECK(document >= 0 && document < documents(), "document {} of {}", document, documents());
  return ends_[static_cast<size_t>(document)];
}

void EncodedText::read(int64_t first, int64_t vocab_size, std::span<int32_t> out) const {
  const auto count = static_cast<int64_t>(out.size());
  CHECK(first >= 0 && count <= tokens() - first, "tokens {} to {} of {}", first, first + count, tokens());
  std::copy_n(ids_.begin() + first, count, out.begin());
  for (size_t i = 0; i < out.size(); ++i)
    CHECK_AS(ExitCode::Data, out[i] < vocab_size, "token {} has the id {}, outside a vocabulary of {}",
             first + static_cast<int64_t>(i), out[i], vocab_size);
}

std::string EncodedText::fingerprint() const {
  Fingerprint mark;
  mark.add(std::as_bytes(std::span(ids_)));
  mark.add(std::as_bytes(std::span(ends_)));
  return mark.digits();
}

}  // namespace tessera
