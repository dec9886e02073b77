// SPDX-License-Identifier: Apache-2.0
// Ids of the reference libraries for small tokenizers of every kind (scripts/make_tokenizer_golden.py), and
// what must hold for every kind and every text.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "framework/tokenizer/tokenizer.h"

namespace tessera {
namespace {

const std::filesystem::path kFolder = TESSERA_SOURCE_DIR "/tests/fixtures/tokenizer";

struct Golden {
  std::vector<std::string> texts;
  std::vector<std::vector<int32_t>> ids;
};

std::vector<std::string> kinds() {
  return {"gpt2",   "llama3",  "qwen",  "neox",   "digits",
          "llama2", "mistral", "gemma", "pieces", "small.tiktoken"};
}

std::unique_ptr<Tokenizer> open(const std::string& kind) {
  if (kind.ends_with(".tiktoken"))
    return make_tokenizer("bpe", {.path = kFolder / kind, .pattern = "cl100k"});
  return make_tokenizer("bpe", {.path = kFolder / (kind + ".json")});
}

Golden golden(const std::string& kind) {
  std::ifstream file(kFolder / "golden.json");
  const nlohmann::json json = nlohmann::json::parse(file);
  EXPECT_EQ(json.at("ids").size(), kinds().size());
  return {json.at("texts"), json.at("ids").at(kind)};
}

class EveryKind : public testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<Tokenizer> tokenizer_ = open(GetParam());
  Golden golden_ = golden(GetParam());
};

TEST_P(EveryKind, GivesTheIdsOfTheReference) {
  ASSERT_GT(golden_.texts.size(), 100u);
  for (size_t i = 0; i < golden_.texts.size(); ++i)
    EXPECT_EQ(tokenizer_->encode(golden_.texts[i]), golden_.ids[i]) << golden_.texts[i];
}

TEST_P(EveryKind, GivesTheSameIdsForTextInParts) {
  const auto encoder = tokenizer_->encoder();
  std::mt19937 random(7);
  for (const size_t most : {size_t{1}, size_t{2}, size_t{40}}) {
    for (size_t i = 0; i < golden_.texts.size(); ++i) {
      std::string_view rest = golden_.texts[i];
      std::vector<int32_t> ids;
      while (!rest.empty()) {
        const size_t size = std::min<size_t>(rest.size(), 1 + random() % most);
        encoder->add(rest.substr(0, size), ids);
        rest.remove_prefix(size);
      }
      encoder->end(ids);
      EXPECT_EQ(ids, golden_.ids[i]) << golden_.texts[i];
    }
  }
}

TEST_P(EveryKind, GivesTheSameIdsForDocumentsCutInTwo) {
  const auto encoder = tokenizer_->encoder();
  int64_t cuts = 0;
  for (const std::string& text : golden_.texts) {
    const std::string document = text + "x\ny" + text + ".\nA" + text;
    const size_t at = tokenizer_->last_cut(document);
    if (at == 0) continue;
    ++cuts;
    std::vector<int32_t> ids;
    encoder->add(std::string_view(document).substr(0, at), ids);
    encoder->end(ids);
    encoder->go_on();
    encoder->add(std::string_view(document).substr(at), ids);
    encoder->end(ids);
    EXPECT_EQ(ids, tokenizer_->encode(document)) << document;
  }
  const bool known_pattern = GetParam() == "gpt2" || GetParam() == "llama3" || GetParam() == "qwen" ||
                             GetParam() == "small.tiktoken";
  if (known_pattern) {
    EXPECT_GT(cuts, 100);
  }
}

// Not for texts that the file's own rules change.
TEST_P(EveryKind, DecodesToTheSameBytes) {
  if (GetParam() == "neox")
    return;  // puts a space in front of each segment, and takes white space beside tokens
  const bool spaces_are_marks = tokenizer_->document_prefix() == " " || GetParam() == "gemma";
  for (const std::string& text : golden_.texts) {
    if (spaces_are_marks && (text.starts_with(' ') || text.find("\xE2\x96\x81") != std::string::npos))
      continue;
    const std::string back = tokenizer_->decode(tokenizer_->encode(text));
    if (GetParam() == "qwen")
      EXPECT_EQ(tokenizer_->encode(back), tokenizer_->encode(text)) << text;  // NFC
    else
      EXPECT_EQ(back, text);
  }
}

TEST_P(EveryKind, KeepsBytesThatAreNoText) {
  if (GetParam() == "qwen" || GetParam() == "neox") return;  // their rules change valid text
  std::mt19937 random(11);
  const std::string_view bytes("ab \n\x80\xBF\xC0\xC3\xA9\xE2\x82\xAC\xED\xA0\xF0\x9F\x98\xF4\xFF\0", 21);
  for (int i = 0; i < 500; ++i) {
    std::string text = "x";
    for (size_t length = random() % 30; length > 0; --length) text += bytes[random() % bytes.size()];
    EXPECT_EQ(tokenizer_->decode(tokenizer_->encode(text)), text);
  }
}

TEST_P(EveryKind, NeverMakesControlTokensOfText) {
  for (const char* name : {"<|endoftext|>", "</s>", "<s>", "<unk>", "<|end_of_text|>", "<|begin_of_text|>"}) {
    for (const int32_t id : tokenizer_->encode(std::string("x ") + name + name)) {
      EXPECT_NE(id, tokenizer_->end_of_document()) << name;
      EXPECT_FALSE(tokenizer_->text_of(id).empty()) << name;
    }
  }
  EXPECT_EQ(tokenizer_->text_of(tokenizer_->end_of_document()), "");
}

TEST_P(EveryKind, MakesControlTokensWhenAsked) {
  const std::string name =
      GetParam() == "llama3" ? "<|end_of_text|>"
      : (tokenizer_->document_prefix() == " " && GetParam() != "neox") || GetParam() == "gemma"
          ? "</s>"
          : "<|endoftext|>";
  const auto encoder = tokenizer_->encoder(Tokenizer::Controls::AreControls);
  std::vector<int32_t> ids;
  encoder->add("a" + name + "b", ids);
  encoder->end(ids);
  EXPECT_EQ(std::count(ids.begin(), ids.end(), tokenizer_->end_of_document()), 1);
}

TEST_P(EveryKind, StreamsWholeCharacters) {
  for (const std::string& text : golden_.texts) {
    StreamDecoder decoder(*tokenizer_);
    std::string streamed, whole;
    for (const int32_t id : tokenizer_->encode(text)) {
      const std::string part = decoder.add(id);
      EXPECT_TRUE(part.empty() || (static_cast<unsigned char>(part[0]) & 0xC0) != 0x80) << text;
      streamed += part;
      whole += tokenizer_->text_of(id);
    }
    EXPECT_EQ(streamed + decoder.end(), whole);
  }
}

// Runs that crawled text has: what one costs must not grow faster than its length.
TEST_P(EveryKind, EncodesLongRuns) {
  for (const std::string& unit :
       {std::string("a"), std::string("^"), std::string(" "), std::string("\n"),
        std::string("\xF0\x9F\x98\x80"), std::string("\xE2\x80\x8D"), std::string("\xCC\x81\xCC\xA3")}) {
    std::string text = "x";
    while (text.size() < 60'003) text += unit;
    EXPECT_EQ(tokenizer_->encode(tokenizer_->decode(tokenizer_->encode(text))), tokenizer_->encode(text));
  }
}

INSTANTIATE_TEST_SUITE_P(Tokenizers, EveryKind, testing::ValuesIn(kinds()),
                         [](const auto& kind) { return kind.param.substr(0, kind.param.find('.')); });

}  // namespace
}  // namespace tessera
