// SPDX-License-Identifier: Apache-2.0
// Files to jobs, jobs to ids, and ids to a token file: whatever the packing, the number of threads and the
// size of jobs.
#include <gmock/gmock.h>

#include <random>

#include "framework/corpus/encode_corpus.h"
#include "framework/corpus/input_stream.h"
#include "framework/dataset/token_file.h"
#include "tests/unit/dataset/scratch.h"

namespace tessera {
namespace {

using test::message_of;
using test::ScratchFolder;
using testing::HasSubstr;
namespace fs = std::filesystem;

const fs::path kFixtures = TESSERA_SOURCE_DIR "/tests/fixtures";

std::unique_ptr<Tokenizer> fixture_tokenizer(const std::string& kind) {
  return make_tokenizer("bpe", {.path = kFixtures / "tokenizer" / (kind + ".json")});
}

std::string content(const fs::path& path, size_t piece) {
  const auto stream = open_input(path);
  std::string text;
  while (stream->read(text, piece)) {
  }
  EXPECT_EQ(stream->file_bytes(), static_cast<int64_t>(fs::file_size(path)));
  return text;
}

TEST(InputStream, UnpacksFilesOfSeveralMembers) {
  const std::string expected = "{\"text\": \"one\"}\n{\"text\": \"two\\nlines\"}\n{\"text\": \"three\"}\r\n";
  for (const char* ending : {".gz", ".zst"})
    for (const size_t piece : {size_t{1}, size_t{7}, size_t{1000}})
      EXPECT_EQ(content(kFixtures / "data/packed" / (std::string("lines.jsonl") + ending), piece), expected);
}

TEST(InputStream, RefusesDamagedAndCutFiles) {
  const ScratchFolder folder;
  for (const char* ending : {".gz", ".zst"}) {
    const std::string whole =
        test::read_text(kFixtures / "data/packed" / (std::string("lines.jsonl") + ending));
    const fs::path path = folder / (std::string("cut") + ending);
    for (size_t size = 1; size < whole.size(); ++size) {
      test::write_text(path, whole.substr(0, size));
      std::string text;
      try {
        const auto stream = open_input(path);
        while (stream->read(text, 100)) {
        }
        EXPECT_TRUE(text.ends_with("lines\"}\n") || text.ends_with("\r\n"))
            << "cut at " << size;  // between members
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ExitCode::Data);
        EXPECT_THAT(error.what(), HasSubstr(path.string()));
      }
    }
    std::string damaged = whole;
    damaged[whole.size() / 3] = static_cast<char>(damaged[whole.size() / 3] ^ 0x55);
    test::write_text(path, damaged + "x");
    EXPECT_THAT(message_of(ExitCode::Data, [&] { content(path, 100); }), HasSubstr(path.string()));
  }
}

TEST(InputStream, NoticesAFileThatChanges) {
  const ScratchFolder folder;
  for (const bool grows : {true, false}) {
    test::write_text(folder / "a.txt", std::string(1000, 'a'));
    const auto stream = open_input(folder / "a.txt");
    std::string text;
    stream->read(text, 100);
    if (grows)
      std::ofstream(folder / "a.txt", std::ios::app) << "more";
    else
      fs::resize_file(folder / "a.txt", 500);
    EXPECT_THAT(message_of(ExitCode::Data,
                           [&] {
                             while (stream->read(text, 100)) {
                             }
                           }),
                HasSubstr("a.txt"));
  }
}

struct Encoded {
  std::vector<std::vector<int32_t>> documents;
  CorpusReport report;
};

Encoded encode(const fs::path& input, const Tokenizer& tokenizer, const CorpusOptions& options) {
  const ScratchFolder folder;
  TokenFileWriter writer(folder / "out", tokenizer.name(), tokenizer.vocab_size());
  Encoded encoded;
  encoded.report = encode_corpus(list_input_files(input, {".gz", ".zst"}), tokenizer, options, writer);
  writer.finish();
  const TokenFile file(folder / "out");
  int64_t begin = 0;
  for (int64_t i = 0; i < file.documents(); ++i) {
    std::vector<int32_t>& ids =
        encoded.documents.emplace_back(static_cast<size_t>(file.document_end(i) - begin));
    file.read(begin, tokenizer.vocab_size(), ids);
    begin = file.document_end(i);
    EXPECT_EQ(ids.back(), tokenizer.end_of_document());
    ids.pop_back();
  }
  return encoded;
}

// Lines of words, some long ones, and a document of a few megabytes that must be divided.
std::string made_text(size_t size, uint32_t seed) {
  std::mt19937 random(seed);
  std::string text;
  constexpr const char* kPieces[] = {"word", " the", "\n", ".\n", " caf\xC3\xA9", "\xF0\x9F\x98\x80",
                                     "  ",   "\n\n", "A1", "'s",  "<|endoftext|>"};
  while (text.size() < size) text += kPieces[random() % std::size(kPieces)];
  return text;
}

TEST(EncodeCorpus, ThreadsChangeNothing) {
  const ScratchFolder folder;
  std::vector<std::string> texts = {made_text(300'003, 1), "x", made_text(65'536, 2),
                                    std::string(200'003, 'b')};
  for (size_t i = 0; i < texts.size(); ++i) test::write_text(folder / fmt::format("in/{}.txt", i), texts[i]);
  std::string lines;
  for (uint32_t i = 0; i < 500; ++i) {
    std::string text = made_text(i % 1003, 100 + i);
    std::string escaped;
    for (const char c : text) escaped += c == '\n' ? std::string("\\n") : std::string(1, c);
    lines += "{\"text\": \"" + escaped + "\"}" + (i % 2 ? "\r\n" : "\n");
    if (!text.empty()) texts.push_back(text);
  }
  test::write_text(folder / "in/lines.jsonl", lines);
  for (const char* kind : {"gpt2", "digits"}) {
    const auto tokenizer = fixture_tokenizer(kind);
    std::vector<std::vector<int32_t>> expected;
    for (const std::string& text : texts) expected.push_back(tokenizer->encode(text));
    for (const int threads : {1, 3}) {
      const Encoded encoded =
          encode(folder / "in", *tokenizer, {.threads = threads, .sizes = {.usual = 4096, .longest = 65536}});
      ASSERT_EQ(encoded.documents.size(), expected.size());
      for (size_t i = 0; i < expected.size(); ++i)
        ASSERT_TRUE(encoded.documents[i] == expected[i]) << kind << " document " << i;
      EXPECT_EQ(encoded.report.empty, 1);
    }
  }
}

TEST(EncodeCorpus, TextThatIsNotUtf8) {
  const ScratchFolder folder;
  const auto tokenizer = fixture_tokenizer("gpt2");
  const std::string bad[] = {"a\x80", "\xC0\xAF", "x\xED\xA0\x80y", "cut \xE2\x82",
                             std::string("nul\0 is text", 12)};
  const std::string repaired[] = {"a\uFFFD", "\uFFFD\uFFFD", "x\uFFFD\uFFFD\uFFFDy", "cut \uFFFD",
                                  std::string("nul\0 is text", 12)};
  for (size_t i = 0; i < std::size(bad); ++i) {
    test::write_text(folder / "in/a.txt", bad[i]);
    test::write_text(folder / "in/b.txt", "good");
    const bool valid = bad[i] == repaired[i];
    const Encoded replaced = encode(folder / "in", *tokenizer, {.documents = {.invalid = Invalid::Replace}});
    EXPECT_EQ(tokenizer->decode(replaced.documents.at(0)), repaired[i]);
    EXPECT_EQ(replaced.report.replaced > 0, !valid);
    const Encoded skipped = encode(folder / "in", *tokenizer, {.documents = {.invalid = Invalid::Skip}});
    EXPECT_EQ(skipped.documents.size(), valid ? 2u : 1u);
    EXPECT_EQ(skipped.report.broken, valid ? 0 : 1);
    if (valid) continue;
    EXPECT_THAT(message_of(ExitCode::Data, [&] { encode(folder / "in", *tokenizer, {}); }),
                HasSubstr("a.txt: byte "));
  }
}

TEST(EncodeCorpus, TheFirstFaultIsReported) {
  const ScratchFolder folder;
  std::string lines;
  for (int i = 1; i <= 100'000; ++i)
    lines += i == 60'000 || i == 90'000 ? "{}\n" : "{\"text\": \"some words here\"}\n";
  test::write_text(folder / "in/a.jsonl", lines);
  const auto tokenizer = fixture_tokenizer("gpt2");
  for (const int threads : {1, 4})
    EXPECT_THAT(message_of(ExitCode::Data, [&] { encode(folder / "in", *tokenizer, {.threads = threads}); }),
                HasSubstr("a.jsonl:60000: no \"text\""));
}

}  // namespace
}  // namespace tessera
