// SPDX-License-Identifier: Apache-2.0
// Crafted tokenizer.json files: the reader refuses them with exit code 3, or gives a tokenizer that encodes
// any text to ids of its vocabulary. The text is what stands behind the first NUL of the input.
#include <cstdlib>
#include <string>

#include "framework/base/check.h"
#include "framework/tokenizer/bpe_tokenizer.h"
#include "framework/tokenizer/tokenizer_json.h"

namespace {

using namespace tessera;

constexpr size_t kLongestText = 256;  // patterns may be slow

void encode_everything(const Tokenizer& tokenizer, std::string_view text) {
  const auto encoder = tokenizer.encoder();
  std::vector<int32_t> ids, again;
  encoder->add(text, ids);
  encoder->end(ids);
  for (size_t i = 0; i < text.size(); ++i) encoder->add(text.substr(i, 1), again);
  encoder->end(again);
  if (ids != again) std::abort();
  for (const int32_t id : ids)
    if (id < 0 || id >= tokenizer.vocab_size()) std::abort();
  (void)tokenizer.decode(ids);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::string_view file = input.substr(0, input.find('\0'));
  try {
    BpeDefinition definition = read_tokenizer_json(file, "file");
    definition.place = "file";
    encode_everything(BpeTokenizer(std::move(definition)), input.substr(file.size()).substr(0, kLongestText));
  } catch (const Error& error) {
    if (error.code() != ExitCode::Data) std::abort();
  }
  return 0;
}
