// SPDX-License-Identifier: Apache-2.0
// One string of a line, beside what a reader of whole trees makes of the same line.
#include "framework/corpus/json_lines.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <random>

namespace tessera {
namespace {

using Json = nlohmann::json;

std::optional<std::string> text_of(const std::string& line) {
  JsonTextReader reader;
  std::string text, reason;
  if (reader.read(line, "text", text, reason)) return text;
  EXPECT_NE(reason, "") << line;
  return std::nullopt;
}

std::optional<std::string> text_by_tree(const std::string& line) {
  int count = 0;
  const auto count_keys = [&](int depth, Json::parse_event_t event, const Json& parsed) {
    if (event == Json::parse_event_t::key && depth == 1 && parsed == "text") ++count;
    return true;
  };
  const Json json = Json::parse(line, count_keys, false);
  if (!json.is_object() || count != 1 || !json["text"].is_string()) return std::nullopt;
  return json["text"].get<std::string>();
}

std::string mutated(std::string line, std::mt19937_64& random) {
  static const std::vector<std::string> kPieces = {"\"",
                                                   "\\",
                                                   "{",
                                                   "}",
                                                   "[",
                                                   "]",
                                                   ",",
                                                   ":",
                                                   "0",
                                                   "-",
                                                   "e9",
                                                   "1e400",
                                                   ".5",
                                                   "null",
                                                   "tru",
                                                   "\\u0000",
                                                   "\\ud800",
                                                   "\\udc00",
                                                   "\\uD83D",
                                                   "\\ude00",
                                                   "\\x",
                                                   "\xff",
                                                   "\xc3",
                                                   "\xa9",
                                                   "\x01",
                                                   "\xc0\x80",
                                                   "\xed\xa0\x80",
                                                   "\u00a0",
                                                   "\xef\xbb\xbf",
                                                   "\r",
                                                   "\t",
                                                   " ",
                                                   "\"text\":",
                                                   "\"t\\u0065xt\":",
                                                   "\"text\":\"a\",",
                                                   "123456789012345678901234567890",
                                                   "\xf4\x90\x80\x80",
                                                   std::string(1, '\0')};
  const auto below = [&](size_t count) { return static_cast<size_t>(random() % count); };
  for (size_t i = 0, count = below(4); i < count && !line.empty(); ++i) {
    const size_t at = below(line.size());
    switch (below(4)) {
      case 0:
        line.insert(at, kPieces[below(kPieces.size())]);
        break;
      case 1:
        line.erase(at, 1 + below(3));
        break;
      case 2:
        line[at] = static_cast<char>(below(256));
        break;
      default:
        line.insert(below(line.size()), line.substr(at, below(12)));
    }
  }
  return line;
}

TEST(JsonTextReader, AgreesWithATreeOnMutatedLines) {
  const std::vector<std::string> lines = {
      R"({"text":"a"})", R"( {"id": [1, {"text": "inner"}], "text" : "one\n\u00e9\ud83d\ude00\u0000" } )",
      R"({"text":"caf)"
      "\u00e9 \U0001F600"
      R"(","score":-1.5e-3,"ok":true,"none":null,"list":[[],{}]})",
      R"({"url":"https:\/\/x.org\/?a=\"b\"","text":"quote \" backslash \\ slash \/","n":18446744073709551616})",
      R"({"pad":"0123456789012345678901234567890123456789012345678901234567890123456789","text":""})"};
  std::mt19937_64 random(1);
  int read = 0, refused = 0;
  for (int i = 0; i < 20000; ++i) {
    const std::string line = mutated(lines[static_cast<size_t>(i) % lines.size()], random);
    const auto expected = text_by_tree(line);
    ASSERT_EQ(text_of(line), expected) << line;
    ++(expected ? read : refused);
  }
  EXPECT_GT(read, 5000);
  EXPECT_GT(refused, 5000);
}

// Each is beyond what the fast parser takes, and a document all the same.
TEST(JsonTextReader, NeitherDepthNorLengthNorDigitsAreALimit) {
  const std::string deep = std::string(5000, '[') + std::string(5000, ']');
  EXPECT_EQ(text_of("{\"a\": " + deep + ", \"text\": \"b\"}"), "b");
  EXPECT_EQ(text_of("{\"a\": 123456789012345678901234567890, \"text\": \"b\"}"), "b");
  EXPECT_EQ(text_of("\xef\xbb\xbf{\"text\": \"b\"}\r"), "b");
  const std::string longest(size_t{20} << 20, 'x');
  EXPECT_EQ(text_of("{\"text\": \"" + longest + "\"}"), longest);
}

TEST(JsonTextReader, AReasonNamesThePlace) {
  JsonTextReader reader;
  std::string text, reason;
  EXPECT_FALSE(reader.read(R"({"text": "a", "n": 01})", "text", text, reason));
  EXPECT_THAT(reason, testing::HasSubstr("column 21"));
  EXPECT_FALSE(reader.read(R"({"text": "a", "t\u0065xt": "b"})", "text", text, reason));
  EXPECT_EQ(reason, "\"text\" stands twice");
  EXPECT_TRUE(reader.read(R"({"text": "again"})", "text", text, reason));
  EXPECT_EQ(text, "again");
}

}  // namespace
}  // namespace tessera
