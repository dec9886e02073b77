// SPDX-License-Identifier: Apache-2.0
#include "framework/tokenizer/byte_tokenizer.h"

#include <algorithm>
#include <array>

#include "framework/base/check.h"

namespace tessera {
namespace {

class ByteEncoder final : public Encoder {
 public:
  void add(std::string_view text, std::vector<int32_t>& ids) override {
    const size_t before = ids.size();
    ids.resize(before + text.size());
    std::transform(text.begin(), text.end(), ids.begin() + static_cast<std::ptrdiff_t>(before),
                   [](char c) { return static_cast<int32_t>(static_cast<unsigned char>(c)); });
  }
  void end(std::vector<int32_t>&) override {}
  void go_on() override {}
};

constexpr auto kBytes = [] {
  std::array<char, 256> bytes{};
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i);
  return bytes;
}();

}  // namespace

std::unique_ptr<Encoder> ByteTokenizer::encoder(Controls controls) const {
  CHECK_AS(ExitCode::Usage, controls == Controls::AreText,
           "the tokenizer \"bytes\" has no names of control tokens");
  return std::make_unique<ByteEncoder>();
}

std::string_view ByteTokenizer::text_of(int32_t id) const {
  CHECK_AS(ExitCode::Data, id >= 0 && id < kVocabSize, "token {} is not one of the {} byte tokens", id,
           kVocabSize);
  if (id == kEndOfDocument) return {};
  return {&kBytes[static_cast<size_t>(id)], 1};
}

}  // namespace tessera
