// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "framework/dataset/text_files.h"
#include "framework/dataset/token_file.h"
#include "framework/tokenizer/tokenizer.h"
#include "tests/unit/dataset/scratch.h"
#include "tools/commands.h"

namespace tessera {
namespace {

using test::message_of;
using test::ScratchFolder;
using testing::HasSubstr;

// Runs the command with --json and gives its report.
nlohmann::json tokenize(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"--tokenizer", "bytes", "--json"});
  testing::internal::CaptureStdout();
  int code = -1;
  try {
    code = tools::tokenize_command(arguments);
  } catch (...) {
    testing::internal::GetCapturedStdout();
    throw;
  }
  const std::string output = testing::internal::GetCapturedStdout();
  EXPECT_EQ(code, 0);
  return nlohmann::json::parse(output);
}

std::vector<std::string> documents_of(const std::filesystem::path& prefix) {
  const TokenFile file(prefix);
  const auto tokenizer = make_tokenizer("bytes");
  std::vector<std::string> documents;
  int64_t begin = 0;
  for (int64_t i = 0; i < file.documents(); ++i) {
    std::vector<int32_t> ids(static_cast<size_t>(file.document_end(i) - begin));
    file.read(begin, 257, ids);
    EXPECT_EQ(ids.back(), 256);
    documents.push_back(tokenizer->decode(ids));
    begin = file.document_end(i);
  }
  return documents;
}

TEST(Tokenize, TextFilesAndFolders) {
  const ScratchFolder folder;
  // Longer than several pieces, with every byte.
  std::string large;
  for (int i = 0; i < 400003; ++i) large.push_back(static_cast<char>(i * 37 % 251 + i / 100000));
  test::write_text(folder / "pages/b.txt", "b");
  test::write_text(folder / "pages/a.txt", "<|endoftext|> seven");
  test::write_text(folder / "pages/empty.txt", "");
  test::write_text(folder / "large.txt", large);
  const auto report =
      tokenize({"--input", folder / "pages", folder / "large.txt", "--output", folder / "out"});
  EXPECT_EQ(report["documents"], 3);
  EXPECT_EQ(report["empty_documents"], 1);
  EXPECT_EQ(report["broken_documents"], 0);
  EXPECT_EQ(report["tokens"], 20 + 2 + 400004);
  EXPECT_EQ(report["input_bytes"], 19 + 1 + 400003);
  EXPECT_EQ(report["token_type"], "uint16");
  EXPECT_EQ(documents_of(folder / "out"), (std::vector<std::string>{"<|endoftext|> seven", "b", large}));
}

TEST(Tokenize, JsonLines) {
  const ScratchFolder folder;
  test::write_text(
      folder / "a.jsonl",
      "{\"id\": [1, {\"text\": \"inner\"}], \"text\": \"one\\n\\u00e9\\ud83d\\ude00\\u0000\"}\r\n"
      "\n   \n"
      "{\"text\": \"\"}\n"
      "{\"text\":\"last without newline\",\"more\":{\"text\":3}}");
  const auto report = tokenize({"--input", folder / "a.jsonl", "--output", folder / "out"});
  EXPECT_EQ(report["documents"], 2);
  EXPECT_EQ(report["empty_documents"], 1);
  EXPECT_EQ(
      documents_of(folder / "out"),
      (std::vector<std::string>{std::string("one\n\xc3\xa9\xf0\x9f\x98\x80\0", 11), "last without newline"}));
}

struct BadLine {
  std::string line;
  const char* reason;
};

TEST(Tokenize, NamesTheLineThatCannotBeRead) {
  const std::vector<BadLine> bad = {
      {"{\"text\": \"open", "parse error"},
      {"not json", "parse error"},
      {"{\"text\": \"a\"} {}", "parse error"},
      {"[{\"text\": \"a\"}]", "not a JSON object"},
      {"\"text\"", "not a JSON object"},
      {"{\"txet\": \"a\"}", "no \"text\""},
      {"{\"text\": 3}", "not a string"},
      {"{\"text\": {\"text\": \"a\"}}", "not a string"},
      {"{\"text\": null}", "not a string"},
      {"{\"text\": \"a\", \"text\": \"b\"}", "twice"},
      {"{\"text\": \"\\ud800\"}", "parse error"},
      {"{\"text\": \"\xff\"}", "parse error"},
      {"{\"text\": \"\xc0\x80\"}", "parse error"},
      {std::string(100000, '['), "not a JSON object"},
      {"{\"a\": " + std::string(100000, '['), "parse error"},
  };
  const ScratchFolder folder;
  for (const BadLine& line : bad) {
    test::write_text(folder / "a.jsonl", "{\"text\": \"good\"}\n" + line.line + "\n{\"text\": \"too\"}\n");
    const std::vector<std::string> arguments = {"--input", folder / "a.jsonl", "--output", folder / "out"};
    const std::string message = message_of(ExitCode::Data, [&] { tokenize(arguments); });
    EXPECT_THAT(message, HasSubstr("a.jsonl:2: "));
    EXPECT_THAT(message, HasSubstr(line.reason));
    EXPECT_FALSE(std::filesystem::exists(folder / "out.idx"));
    EXPECT_FALSE(std::filesystem::exists(folder / "out.bin"));

    testing::internal::CaptureStderr();
    std::vector<std::string> skipping = arguments;
    skipping.insert(skipping.end(), {"--invalid", "skip"});
    const auto report = tokenize(skipping);
    EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("a.jsonl:2: "));
    EXPECT_EQ(report["broken_documents"], 1);
    EXPECT_EQ(documents_of(folder / "out"), (std::vector<std::string>{"good", "too"}));
    std::filesystem::remove(folder / "out.idx");
    std::filesystem::remove(folder / "out.bin");
  }
}

TEST(Tokenize, FormatAndKeyCanBeNamed) {
  const ScratchFolder folder;
  test::write_text(folder / "a.txt", "{\"body\": \"x\"}\n");
  tokenize(
      {"--input", folder / "a.txt", "--output", folder / "o", "--format", "jsonl", "--text-key", "body"});
  EXPECT_EQ(documents_of(folder / "o"), (std::vector<std::string>{"x"}));
  test::write_text(folder / "b.jsonl", "plain");
  tokenize({"--input", folder / "b.jsonl", "--output", folder / "o", "--format", "text"});
  EXPECT_EQ(documents_of(folder / "o"), (std::vector<std::string>{"plain"}));
}

TEST(Tokenize, LinesLongerThanAChunk) {
  const ScratchFolder folder;
  const std::string a(3 << 20, 'a'), b((1 << 20) - 1, 'b');
  test::write_text(folder / "a.jsonl",
                   "{\"text\":\"" + a + "\"}\n{\"text\":\"" + b + "\"}\n{\"text\":\"c\"}\n");
  tokenize({"--input", folder / "a.jsonl", "--output", folder / "o"});
  EXPECT_EQ(documents_of(folder / "o"), (std::vector<std::string>{a, b, "c"}));
}

TEST(Tokenize, RefusesBadCommandLines) {
  const ScratchFolder folder;
  test::write_text(folder / "a.txt", "text");
  const std::string input = folder / "a.txt", output = folder / "o";
  const auto refused = [](ExitCode code, std::vector<std::string> arguments) {
    return message_of(code, [&] { tools::tokenize_command(arguments); });
  };
  EXPECT_THAT(refused(ExitCode::Usage, {"--tokenizer", "bytes", "--output", output}), HasSubstr("--input"));
  EXPECT_THAT(refused(ExitCode::Data, {"--tokenizer", "bpe", "--input", input, "--output", output}),
              HasSubstr("tokenizer bpe does not exist"));
  EXPECT_THAT(
      refused(ExitCode::Usage, {"--tokenizer", "bytes", "--input", input, "--output", output, "--what"}),
      HasSubstr("--what"));
  EXPECT_THAT(
      refused(ExitCode::Usage, {"--tokenizer", "bytes", "--input", input, "--output", folder.path() / ""}),
      HasSubstr("names a folder"));
  EXPECT_THAT(refused(ExitCode::Data, {"--tokenizer", "bytes", "--input", input + "x", "--output", output}),
              HasSubstr("a.txtx"));
  EXPECT_THAT(
      refused(ExitCode::Data, {"--tokenizer", "bytes", "--input", input, "--output", output + "/x/y"}),
      HasSubstr("o/x/y"));
  test::write_text(folder / "empty.txt", "");
  EXPECT_THAT(
      refused(ExitCode::Data, {"--tokenizer", "bytes", "--input", folder / "empty.txt", "--output", output}),
      HasSubstr("no text"));
}

}  // namespace
}  // namespace tessera
