// SPDX-License-Identifier: Apache-2.0
// Files with parts that are not known or damaged: each is refused with its place.
#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "framework/base/check.h"
#include "framework/tokenizer/tokenizer.h"
#include "tests/support/scratch_folder.h"

namespace tessera {
namespace {

using nlohmann::json;
using testing::HasSubstr;
namespace fs = std::filesystem;

const fs::path kFixtures = TESSERA_SOURCE_DIR "/tests/fixtures/tokenizer";

class TokenizerFile : public testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
  }

  // The error of opening the folder.
  std::string refusal(const TokenizerOptions& options = {}, ExitCode code = ExitCode::Data) const {
    TokenizerOptions used = options;
    if (used.path.empty()) used.path = folder_;
    try {
      make_tokenizer("bpe", used);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      return error.what();
    }
    return "no error";
  }

  const test::ScratchFolder scratch_;
  const fs::path folder_ = scratch_.path();
};

json fixture(const char* kind) {
  std::ifstream file(kFixtures / (std::string(kind) + ".json"));
  return json::parse(file);
}

struct Change {
  const char* kind;
  std::function<void(json&)> change;
  const char* message;
};

TEST_F(TokenizerFile, RefusesWhatItDoesNotKnow) {
  const std::vector<Change> changes = {
      {"gpt2", [](json& f) { f["model"]["type"] = "Unigram"; }, "/model/type: \"Unigram\" is not built"},
      {"gpt2", [](json& f) { f["model"]["dropout"] = 0.1; }, "/model/dropout: "},
      {"gpt2", [](json& f) { f["model"]["end_of_word_suffix"] = "</w>"; }, "/model/end_of_word_suffix: "},
      {"gpt2", [](json& f) { f["model"]["new_key"] = 1; }, "/model: the key \"new_key\" is not known"},
      {"gpt2", [](json& f) { f["more"] = 1; }, ": the key \"more\" is not known"},
      {"gpt2", [](json& f) { f["version"] = "2.0"; }, "/version: "},
      {"gpt2",
       [](json& f) {
         f["truncation"] = {{"max_length", 7}};
       },
       "/truncation: "},
      {"gpt2",
       [](json& f) {
         f["normalizer"] = {{"type", "Lowercase"}};
       },
       "/normalizer/type: \"Lowercase\""},
      {"gpt2",
       [](json& f) {
         f["pre_tokenizer"] = {{"type", "WhitespaceSplit"}};
       },
       "/pre_tokenizer/type: "},
      {"gpt2", [](json& f) { f["pre_tokenizer"] = nullptr; }, "/model: neither a ByteLevel"},
      {"gpt2",
       [](json& f) {
         f["decoder"] = {{"type", "WordPiece"}};
       },
       "/decoder/type: "},
      {"gpt2",
       [](json& f) {
         f["post_processor"] = {{"type", "RobertaProcessing"}};
       },
       "/post_processor/type: "},
      {"gpt2", [](json& f) { f["model"]["vocab"]["a"] = -1; }, "/model/vocab/a: -1 is not in 0 to"},
      {"gpt2", [](json& f) { f["model"]["vocab"]["a"] = "x"; }, "/model/vocab/a: is string"},
      {"gpt2", [](json& f) { f["model"]["vocab"]["a"] = 400; }, "id 400 is also that of another token"},
      {"gpt2", [](json& f) { f["model"]["vocab"]["a"] = 15'000'000; }, "have ids up to 15000000"},
      {"gpt2", [](json& f) { f["model"]["vocab"].erase("a"); }, "\"a\" is not in the vocabulary"},
      {"gpt2", [](json& f) { f["model"]["merges"][3] = "a"; }, "/model/merges/3: is neither"},
      {"gpt2", [](json& f) { f["model"]["merges"][3] = "a b c"; }, "/model/merges/3: is neither"},
      {"gpt2", [](json& f) { f["model"]["merges"][3] = "q z"; },
       "/model/merges/3: \"qz\" is not in the vocabulary"},
      {"gpt2", [](json& f) { f["added_tokens"][0]["id"] = 7; }, "/added_tokens/0: "},
      {"gpt2", [](json& f) { f["added_tokens"].push_back(f["added_tokens"][0]); },
       "/added_tokens/1: stands twice"},
      {"gpt2", [](json& f) { f["added_tokens"][0]["special"] = false; },
       "no control token is known to end a document"},
      {"llama3", [](json& f) { f["pre_tokenizer"]["pretokenizers"][0]["behavior"] = "Removed"; },
       "/pre_tokenizer/pretokenizers/0/behavior: \"Removed\" is not built"},
      {"llama3", [](json& f) { f["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "(a"; },
       "/pre_tokenizer/pretokenizers/0/pattern/Regex: "},
      {"llama3", [](json& f) { f["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "[a&&b]"; },
       "the form && inside of [ ]"},
      {"llama3", [](json& f) { f["pre_tokenizer"]["pretokenizers"][1]["add_prefix_space"] = true; },
       "/pre_tokenizer/pretokenizers/1: puts a space"},
      {"llama2", [](json& f) { f["model"]["vocab"].erase("<0x0A>"); }, "no token for the byte 0x0A"},
      {"llama2", [](json& f) { f["normalizer"]["normalizers"][1]["content"] = ""; },
       "/normalizer/normalizers/1/content: would lose text"},
  };
  for (const Change& change : changes) {
    json file = fixture(change.kind);
    change.change(file);
    write("tokenizer.json", file.dump());
    EXPECT_THAT(refusal(), HasSubstr(change.message));
    EXPECT_THAT(refusal(), HasSubstr((folder_ / "tokenizer.json").string()));
  }
}

TEST_F(TokenizerFile, RefusesDamage) {
  EXPECT_THAT(refusal(), HasSubstr("holds no tokenizer.json"));
  EXPECT_THAT(refusal({.path = folder_ / "absent"}), HasSubstr("does not exist"));
  write("tokenizer.json", "");
  EXPECT_THAT(refusal(), HasSubstr("is empty"));
  write("tokenizer.json", "{\"model\": ");
  EXPECT_THAT(refusal(), HasSubstr("parse error"));
  write("tokenizer.json", std::string(100000, '{'));
  EXPECT_THAT(refusal(), HasSubstr("parse error"));
  std::string deep = "{\"normalizer\":";
  for (int i = 0; i < 100; ++i) deep += "{\"type\":\"Sequence\",\"normalizers\":[";
  write("tokenizer.json", deep);
  EXPECT_THAT(refusal(), HasSubstr("parse error"));
}

TEST_F(TokenizerFile, EndOfDocument) {
  json file = fixture("llama3");
  write("tokenizer.json", file.dump());
  const auto id = [&](const char* name) -> int32_t {
    for (const json& token : file["added_tokens"])
      if (token["content"] == name) return token["id"];
    return -1;
  };
  EXPECT_EQ(make_tokenizer("bpe", {.path = folder_})->end_of_document(), id("<|end_of_text|>"));
  const TokenizerOptions named{.path = folder_, .end_of_document = "<|begin_of_text|>"};
  EXPECT_EQ(make_tokenizer("bpe", named)->end_of_document(), id("<|begin_of_text|>"));
  write("tokenizer_config.json", R"({"eos_token": {"content": "<|begin_of_text|>"}})");
  EXPECT_EQ(make_tokenizer("bpe", {.path = folder_})->end_of_document(), id("<|begin_of_text|>"));
  EXPECT_THAT(refusal({.end_of_document = "the"}), HasSubstr("is no control token"));
}

TEST_F(TokenizerFile, NameChangesWithTheContent) {
  json file = fixture("gpt2");
  write("tokenizer.json", file.dump());
  const std::string name = make_tokenizer("bpe", {.path = folder_})->name();
  EXPECT_EQ(name.size(), std::string("bpe ").size() + 16);
  file["model"]["ignore_merges"] = true;
  write("tokenizer.json", file.dump());
  EXPECT_NE(make_tokenizer("bpe", {.path = folder_})->name(), name);
}

TEST_F(TokenizerFile, RefusesBadRankFiles) {
  const fs::path path = folder_ / "x.tiktoken";
  const auto refused = [&](const std::string& text, const std::string& pattern = "gpt2") {
    write("x.tiktoken", text);
    return refusal({.path = path, .pattern = pattern});
  };
  EXPECT_THAT(refused("YQ== 0\nYg== 2\n"), HasSubstr("x.tiktoken:2: rank 2, where 1 comes next"));
  EXPECT_THAT(refused("YQ== 0\nYQ== 1\n"), HasSubstr("rank 1 has the same token as rank 0"));
  EXPECT_THAT(refused("YQ 0\n"), HasSubstr("x.tiktoken:1: not a token in base64"));
  EXPECT_THAT(refused("Y?== 0\n"), HasSubstr("x.tiktoken:1: "));
  EXPECT_THAT(refused("YR== 0\n"), HasSubstr("x.tiktoken:1: "));
  EXPECT_THAT(refused("YQ== x\n"), HasSubstr("x.tiktoken:1: "));
  EXPECT_THAT(refused("YQ== 99999999999999999999\n"), HasSubstr("x.tiktoken:1: "));
  EXPECT_THAT(refused("YQ== 0\n"), HasSubstr("no token for the byte 0x00"));
  EXPECT_THAT(refused("YQ== 0\n", ""), HasSubstr("1 ranks belong to no known family"));
  write("x.tiktoken", "YQ== 0\n");
  EXPECT_THAT(refusal({.path = path, .pattern = "gpt5"}, ExitCode::Usage),
              HasSubstr("\"gpt5\" is not known"));
}

}  // namespace
}  // namespace tessera
