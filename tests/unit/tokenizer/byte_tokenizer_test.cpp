// SPDX-License-Identifier: Apache-2.0
#include "framework/tokenizer/byte_tokenizer.h"

#include <gtest/gtest.h>

#include "framework/base/check.h"

namespace tessera {
namespace {

TEST(ByteTokenizer, EveryByteComesBack) {
  const auto tokenizer = make_tokenizer("bytes");
  std::string text;
  for (int i = 0; i < 1003; ++i) text.push_back(static_cast<char>(i * 7 % 256));
  const std::vector<int32_t> ids = tokenizer->encode(text);
  ASSERT_EQ(ids.size(), text.size());
  for (size_t i = 0; i < ids.size(); ++i) EXPECT_EQ(ids[i], static_cast<int32_t>(i * 7 % 256));
  EXPECT_EQ(tokenizer->decode(ids), text);
}

TEST(ByteTokenizer, PartsAppend) {
  const ByteTokenizer tokenizer;
  std::vector<int32_t> ids = {256};
  const auto encoder = tokenizer.encoder();
  encoder->add("ab", ids);
  encoder->add("", ids);
  encoder->add("c", ids);
  encoder->end(ids);
  EXPECT_EQ(ids, (std::vector<int32_t>{256, 97, 98, 99}));
}

// Texts that look like control tokens, and bytes that are not UTF-8.
TEST(ByteTokenizer, TextNeverBecomesAControlToken) {
  const ByteTokenizer tokenizer;
  const std::string_view texts[] = {
      "<|endoftext|>", "</s>",     "<eod>",        "256",          std::string_view("a\0b", 3),
      "\xff\xfe\x80",  "\xc0\x80", "\xed\xa0\x80", "\xf0\x9f\x98", "\xef\xbb\xbfx"};
  for (const std::string_view text : texts) {
    const std::vector<int32_t> ids = tokenizer.encode(text);
    for (const int32_t id : ids) EXPECT_LT(id, 256);
    EXPECT_EQ(tokenizer.decode(ids), text);
  }
}

TEST(ByteTokenizer, ControlIdsGiveNoTextAndForeignIdsAreRefused) {
  const ByteTokenizer tokenizer;
  EXPECT_EQ(tokenizer.decode(std::vector<int32_t>{104, 256, 105}), "hi");
  for (const int32_t foreign : {-1, 257, 1 << 30}) {
    try {
      tokenizer.decode(std::vector<int32_t>{foreign});
      FAIL() << "accepted " << foreign;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::Data);
      EXPECT_NE(std::string(error.what()).find(std::to_string(foreign)), std::string::npos);
    }
  }
}

TEST(ByteTokenizer, CutsAnywhere) {
  const ByteTokenizer tokenizer;
  EXPECT_EQ(tokenizer.last_cut("abcdefg"), 7u);
  EXPECT_EQ(tokenizer.last_cut(""), 0u);
}

TEST(MakeTokenizer, RefusesUnknownTypesAndOptions) {
  for (const char* type : {"Bytes", "", "word"}) {
    try {
      make_tokenizer(type);
      FAIL() << "accepted " << type;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::Usage);
      EXPECT_NE(std::string(error.what()).find(type), std::string::npos);
    }
  }
  EXPECT_THROW(make_tokenizer("bytes", {.path = "some/file"}), Error);
  EXPECT_THROW(make_tokenizer("bytes", {.pattern = "gpt2"}), Error);
  EXPECT_THROW(make_tokenizer("bpe"), Error);
  EXPECT_EQ(make_tokenizer("bytes")->end_of_document(), 256);
  EXPECT_EQ(make_tokenizer("bytes")->vocab_size(), 257);
}

}  // namespace
}  // namespace tessera
