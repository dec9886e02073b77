// SPDX-License-Identifier: Apache-2.0
// Prompts with completions, and conversations, to tokens and loss masks.
#include <gmock/gmock.h>

#include "framework/corpus/encode_corpus.h"
#include "framework/dataset/token_file.h"
#include "tests/unit/dataset/scratch.h"

namespace tessera {
namespace {

using test::message_of;
using test::ScratchFolder;
using testing::HasSubstr;

// Its control tokens are <unk> = 0, <s> = 1 and </s> = 2, and it puts a mark in front of a text.
std::unique_ptr<Tokenizer> llama2() {
  return make_tokenizer("bpe", {.path = TESSERA_SOURCE_DIR "/tests/fixtures/tokenizer/llama2.json"});
}

using Ids = std::vector<int32_t>;
using Mask = std::vector<uint8_t>;

// A part of a document that is not its first.
Ids later_part(const Tokenizer& tokenizer, const std::string& text) {
  Ids ids;
  const auto encoder = tokenizer.encoder();
  encoder->go_on();
  encoder->add(text, ids);
  encoder->end(ids);
  return ids;
}

void append(Ids& ids, Mask& mask, const Ids& more, bool learned) {
  ids.insert(ids.end(), more.begin(), more.end());
  mask.resize(ids.size(), learned ? 1 : 0);
}

struct Written {
  CorpusReport report;
  std::vector<std::pair<Ids, Mask>> documents;
};

Written write(const std::string& lines, const Tokenizer& tokenizer, const DocumentOptions& documents,
              int threads = 1) {
  const ScratchFolder folder;
  test::write_text(folder / "lines.json", lines);
  TokenFileWriter writer(folder / "out", tokenizer.name(), tokenizer.vocab_size());
  writer.keep_mask();
  Written written;
  written.report = encode_corpus(
      list_input_files(folder / "lines.json"), tokenizer,
      {.documents = documents, .format = InputFormat::Lines, .threads = threads, .sizes = {.usual = 100}},
      writer);
  writer.finish();
  const TokenFile file(folder / "out");
  EXPECT_TRUE(file.has_mask());
  for (int64_t i = 0; i < file.documents(); ++i) {
    const int64_t begin = file.document_begin(i);
    auto& [ids, mask] = written.documents.emplace_back();
    ids.resize(static_cast<size_t>(file.document_end(i) - begin));
    mask.resize(ids.size());
    file.read(begin, tokenizer.vocab_size(), ids);
    file.read_mask(begin, mask);
  }
  return written;
}

TEST(Completion, IsLearnedAndThePromptIsNot) {
  const auto tokenizer = llama2();
  const std::string lines =
      "{\"prompt\": \"Two and two?\", \"completion\": \" four\", \"id\": 3}\n"
      "{\"completion\": \"no prompt\", \"prompt\": \"\"}\n"
      "{\"prompt\": \"nothing to learn\", \"completion\": \"\"}\n";
  for (const int threads : {1, 3}) {
    const Written written = write(lines, *tokenizer, {.form = LineForm::Completion}, threads);
    ASSERT_EQ(written.documents.size(), 2u);
    EXPECT_EQ(written.report.empty, 1);
    Ids ids;
    Mask mask;
    append(ids, mask, tokenizer->encode("Two and two?"), false);
    append(ids, mask, later_part(*tokenizer, " four"), true);
    append(ids, mask, {tokenizer->end_of_document()}, true);
    EXPECT_EQ(written.documents[0].first, ids);
    EXPECT_EQ(written.documents[0].second, mask);
    Ids only = tokenizer->encode("no prompt");
    only.push_back(tokenizer->end_of_document());
    EXPECT_EQ(written.documents[1].first, only);
    EXPECT_EQ(written.documents[1].second, Mask(only.size(), 1));
  }
}

DocumentOptions chat_options() {
  return {.form = LineForm::Chat, .chat = {.roles = {{"user", 0}, {"assistant", 1}}, .end_of_turn = 2}};
}

TEST(Chat, HasItsRolesAndLearnsTheAssistant) {
  const auto tokenizer = llama2();
  // Names of control tokens in a message are text.
  const Written written = write(
      "{\"messages\": [{\"role\": \"user\", \"content\": \"hello </s>\"}, {\"content\": \"caf\\u00e9\", "
      "\"role\": \"assistant\"}, {\"role\": \"user\", \"content\": \"\"}, {\"role\": \"assistant\", "
      "\"content\": "
      "\"bye\"}], \"source\": {\"messages\": []}}\n",
      *tokenizer, chat_options());
  ASSERT_EQ(written.documents.size(), 1u);
  Ids ids;
  Mask mask;
  append(ids, mask, {0}, false);
  append(ids, mask, tokenizer->encode("hello </s>"), false);
  append(ids, mask, {2, 1}, false);
  append(ids, mask, later_part(*tokenizer, "caf\xC3\xA9"), true);
  append(ids, mask, {2}, true);
  append(ids, mask, {0, 2, 1}, false);
  append(ids, mask, later_part(*tokenizer, "bye"), true);
  append(ids, mask, {2}, true);
  append(ids, mask, {tokenizer->end_of_document()}, false);
  EXPECT_EQ(written.documents[0].first, ids);
  EXPECT_EQ(written.documents[0].second, mask);
  EXPECT_EQ(std::count(ids.begin(), ids.end(), 2), 5);  // four turns, and the document
}

TEST(Chat, WhatIsNotReadIsRefusedWithItsLine) {
  const auto tokenizer = llama2();
  const std::vector<std::pair<std::string, std::string>> lines = {
      {"[]", "not a JSON object"},
      {"{\"text\": \"x\"}", "no \"messages\""},
      {"{\"messages\": []}", "no list, or an empty one"},
      {"{\"messages\": \"x\"}", "no list, or an empty one"},
      {"{\"messages\": [1]}", "message 1: not a JSON object"},
      {"{\"messages\": [{\"role\": \"user\"}]}", "message 1: no \"content\""},
      {"{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"text\"}]}]}",
       "message 1: \"content\" is not a string"},
      {"{\"messages\": [{\"role\": \"user\", \"content\": \"x\", \"tool_calls\": []}]}",
       "message 1: \"tool_calls\" is not read"},
      {"{\"messages\": [{\"role\": \"tool\", \"content\": \"x\"}]}", "the role \"tool\" (--role tool=TOKEN)"},
      {"{\"messages\": [], \"messages\": []}", "\"messages\" stands twice"},
      {"{\"messages\": [{\"role\": \"user\", \"role\": \"user\", \"content\": \"\"}]}",
       "\"role\" stands twice"},
      {"{\"messages\": [{\"role\": \"user\", \"content\": \"\xFF\"}]}", "UTF-8"},
      {"{\"messages\": ", "parse error"}};
  const std::string good = "{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}]}\n";
  for (const auto& [line, reason] : lines) {
    const std::string message = message_of(ExitCode::Data, [&, &line = line] {
      write(good + "\n" + line + "\n" + good, *tokenizer, chat_options());
    });
    EXPECT_THAT(message, HasSubstr("lines.json:3: "));
    EXPECT_THAT(message, HasSubstr(reason));
    DocumentOptions skip = chat_options();
    skip.invalid = Invalid::Skip;
    const Written written = write(good + line + "\n" + good, *tokenizer, skip);
    EXPECT_EQ(written.documents.size(), 2u);
    EXPECT_EQ(written.report.broken, 1);
  }
  const std::string message = message_of(ExitCode::Data, [&] {
    write("{\"prompt\": \"x\", \"completion\": [\"y\"]}\n", *tokenizer, {.form = LineForm::Completion});
  });
  EXPECT_THAT(message, HasSubstr("lines.json:1: \"completion\" is not a string"));
}

TEST(Chat, RolesAreControlTokens) {
  const auto tokenizer = llama2();
  EXPECT_EQ(control_id(*tokenizer, "<s>"), 1);
  for (const char* name : {"user", "<|user|>", "", "<s></s>"})
    EXPECT_THAT(message_of(ExitCode::Usage, [&] { control_id(*tokenizer, name); }),
                HasSubstr("is no control token"));
}

}  // namespace
}  // namespace tessera
