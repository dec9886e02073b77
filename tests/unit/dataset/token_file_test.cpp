// SPDX-License-Identifier: Apache-2.0
#include "framework/dataset/token_file.h"

#include <gmock/gmock.h>

#include <numeric>
#include <random>

#include "tests/unit/dataset/scratch.h"

namespace tessera {
namespace {

using test::message_of;
using test::ScratchFolder;
using testing::HasSubstr;

template <class T>
std::string bytes_of(std::vector<T> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

// An index put together field by field, so that each can be wrong.
struct IndexParts {
  std::string magic = std::string("MMIDIDX\0\0", 9);
  uint64_t version = 1;
  uint8_t code = 8;
  std::vector<int32_t> lengths = {3, 0, 4};
  std::vector<int64_t> offsets = {0, 6, 6};
  std::vector<int64_t> borders = {0, 2, 3};
  std::optional<uint64_t> sequence_count, border_count;
  std::string rest;

  std::string text() const {
    return magic + bytes_of<uint64_t>({version}) + bytes_of<uint8_t>({code}) +
           bytes_of<uint64_t>({sequence_count.value_or(lengths.size())}) +
           bytes_of<uint64_t>({border_count.value_or(borders.size())}) + bytes_of(lengths) +
           bytes_of(offsets) + bytes_of(borders) + rest;
  }
};

std::vector<int32_t> read_all(const TokenFile& file, int64_t vocab = INT32_MAX) {
  std::vector<int32_t> ids(static_cast<size_t>(file.tokens()));
  file.read(0, vocab, ids);
  return ids;
}

TEST(TokenFile, ReadsWhatTheFormatSays) {
  const ScratchFolder folder;
  test::write_text(folder / "a.idx", IndexParts{}.text());
  test::write_text(folder / "a.bin", bytes_of<uint16_t>({5, 6, 7, 65535, 1, 0, 2}));
  const TokenFile file(folder / "a");
  EXPECT_EQ(file.tokens(), 7);
  EXPECT_EQ(file.documents(), 2);
  EXPECT_EQ(file.sequences(), 3);
  EXPECT_EQ(file.document_end(0), 3);
  EXPECT_EQ(file.document_end(1), 7);
  EXPECT_EQ(file.document_of(0), 0);
  EXPECT_EQ(file.document_of(2), 0);
  EXPECT_EQ(file.document_of(3), 1);
  EXPECT_EQ(file.document_of(6), 1);
  EXPECT_EQ(read_all(file), (std::vector<int32_t>{5, 6, 7, 65535, 1, 0, 2}));
  std::vector<int32_t> part(3);
  file.read(2, 65536, part);
  EXPECT_EQ(part, (std::vector<int32_t>{7, 65535, 1}));
  EXPECT_FALSE(file.note());
}

template <class T>
void check_type(const ScratchFolder& folder, TokenType type, std::vector<T> values) {
  IndexParts parts;
  parts.code = static_cast<uint8_t>(type);
  parts.lengths = {static_cast<int32_t>(values.size())};
  parts.offsets = {0};
  parts.borders = {0, 1};
  test::write_text(folder / "t.idx", parts.text());
  test::write_text(folder / "t.bin", bytes_of(values));
  const TokenFile file(folder / "t");
  EXPECT_EQ(file.kind(), name_of(type));
  EXPECT_EQ(read_all(file), std::vector<int32_t>(values.begin(), values.end()));
}

TEST(TokenFile, ReadsEveryIntegerType) {
  const ScratchFolder folder;
  check_type<uint8_t>(folder, TokenType::U8, {0, 127, 255});
  check_type<int8_t>(folder, TokenType::I8, {0, 127, 1});
  check_type<int16_t>(folder, TokenType::I16, {0, 32767, 1});
  check_type<uint16_t>(folder, TokenType::U16, {0, 65535, 1});
  check_type<int32_t>(folder, TokenType::I32, {0, INT32_MAX - 1, 1});
  check_type<int64_t>(folder, TokenType::I64, {0, INT32_MAX - 1, 1});
}

TEST(TokenFile, RefusesIdsOutsideTheVocabulary) {
  const ScratchFolder folder;
  IndexParts parts;
  parts.code = static_cast<uint8_t>(TokenType::I64);
  parts.offsets = {0, 24, 24};
  for (const int64_t bad : {int64_t{1003}, int64_t{-1}, int64_t{1} << 32, INT64_MIN}) {
    test::write_text(folder / "a.idx", parts.text());
    test::write_text(folder / "a.bin", bytes_of<int64_t>({1, 2, 3, 4, bad, 5, 6}));
    const TokenFile file(folder / "a");
    const std::string message = message_of(ExitCode::Data, [&] { read_all(file, 1003); });
    EXPECT_THAT(message, HasSubstr("a.bin: token 4 has id " + std::to_string(bad)));
    EXPECT_THAT(message, HasSubstr("1003"));
    std::vector<int32_t> before(4);
    file.read(0, 1003, before);  // what is good can be read
  }
}

struct Damage {
  const char* name;
  void (*apply)(IndexParts&);
  const char* message;
};

constexpr Damage kDamages[] = {
    {"magic", [](IndexParts& p) { p.magic[3] = 'X'; }, "does not begin with MMIDIDX"},
    {"old magic", [](IndexParts& p) { p.magic = std::string("TNTIDX\0\0\0", 9); }, "TNTIDX"},
    {"version", [](IndexParts& p) { p.version = 2; }, "version 2"},
    {"type 0", [](IndexParts& p) { p.code = 0; }, "type code 0"},
    {"floats", [](IndexParts& p) { p.code = 7; }, "type code 7"},
    {"type 9", [](IndexParts& p) { p.code = 9; }, "type code 9"},
    {"count too large", [](IndexParts& p) { p.sequence_count = 4; }, "sequences"},
    {"count that wraps", [](IndexParts& p) { p.sequence_count = (uint64_t{1} << 63) + 3; }, "too few"},
    {"count that wraps to the size", [](IndexParts& p) { p.sequence_count = 0x5555555555555558u; },
     "too few"},
    {"border count of 0", [](IndexParts& p) { p.border_count = 0; }, "document borders"},
    {"border count that wraps", [](IndexParts& p) { p.border_count = (uint64_t{1} << 61) + 3; }, "too few"},
    {"bytes at the end", [](IndexParts& p) { p.rest = "xx"; }, "bytes"},
    {"negative length",
     [](IndexParts& p) {
       p.lengths = {4, -1, 4};
     },
     "sequence 1"},
    {"negative last length", [](IndexParts& p) { p.lengths[2] = -4; }, "last"},
    {"gap",
     [](IndexParts& p) {
       p.offsets = {0, 6, 8};
       p.lengths = {3, 0, 3};
     },
     "back to back"},
    {"overlap",
     [](IndexParts& p) {
       p.offsets = {0, 4, 6};
     },
     "back to back"},
    {"first not at 0", [](IndexParts& p) { p.offsets[0] = 2; }, "begins at byte 2"},
    {"negative offset", [](IndexParts& p) { p.offsets[2] = -8; }, "last at -8"},
    {"offset past the end", [](IndexParts& p) { p.offsets[2] = 1000; }, "1000"},
    {"offset near the largest", [](IndexParts& p) { p.offsets[2] = INT64_MAX - 3; }, "last at"},
    {"length past the end", [](IndexParts& p) { p.lengths[2] = 5; }, "describes 16 bytes"},
    {"length before the end", [](IndexParts& p) { p.lengths[2] = 3; }, "describes 12 bytes"},
    {"borders begin late", [](IndexParts& p) { p.borders[0] = 1; }, "not 0 to 3"},
    {"borders end early", [](IndexParts& p) { p.borders[2] = 2; }, "not 0 to 3"},
    {"borders go back",
     [](IndexParts& p) {
       p.borders = {0, 3, 1, 3};
     },
     "document 1"},
    {"border outside", [](IndexParts& p) { p.borders[1] = 99; }, "document 1"},
};

TEST(TokenFile, RefusesDamagedIndexes) {
  for (const Damage& damage : kDamages) {
    const ScratchFolder folder;
    IndexParts parts;
    damage.apply(parts);
    test::write_text(folder / "a.idx", parts.text());
    test::write_text(folder / "a.bin", bytes_of<uint16_t>({1, 2, 3, 4, 5, 6, 7}));
    const std::string message = message_of(ExitCode::Data, [&] { TokenFile file(folder / "a"); });
    EXPECT_THAT(message, HasSubstr(damage.message)) << damage.name;
    EXPECT_THAT(message, HasSubstr("a.idx")) << damage.name;
  }
}

TEST(TokenFile, RefusesEveryTruncation) {
  const ScratchFolder folder;
  const std::string index = IndexParts{}.text(), bin = bytes_of<uint16_t>({1, 2, 3, 4, 5, 6, 7});
  for (size_t size = 0; size < index.size(); ++size) {
    test::write_text(folder / "a.idx", index.substr(0, size));
    test::write_text(folder / "a.bin", bin);
    message_of(ExitCode::Data, [&] { TokenFile file(folder / "a"); });
  }
  for (size_t size = 0; size < bin.size(); ++size) {
    test::write_text(folder / "b.idx", index);
    test::write_text(folder / "b.bin", bin.substr(0, size));
    message_of(ExitCode::Data, [&] { TokenFile file(folder / "b"); });
  }
}

TEST(TokenFile, NamesTheMissingFile) {
  const ScratchFolder folder;
  test::write_text(folder / "a.idx", IndexParts{}.text());
  EXPECT_THAT(message_of(ExitCode::Data, [&] { TokenFile file(folder / "a"); }), HasSubstr("a.bin"));
  EXPECT_THAT(message_of(ExitCode::Data, [&] { TokenFile file(folder / "b"); }), HasSubstr("b.idx"));
}

TEST(TokenFile, AcceptsModesOfMultimodalFiles) {
  const ScratchFolder folder;
  IndexParts parts;
  parts.rest = std::string(3, '\0');
  test::write_text(folder / "a.idx", parts.text());
  test::write_text(folder / "a.bin", bytes_of<uint16_t>({1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(TokenFile(folder / "a").tokens(), 7);
}

// Random changes of single bytes either leave a readable file or are refused; nothing else may happen.
TEST(TokenFile, SurvivesRandomDamage) {
  const ScratchFolder folder;
  const std::string index = IndexParts{}.text();
  test::write_text(folder / "a.bin", bytes_of<uint16_t>({1, 2, 3, 4, 5, 6, 7}));
  std::mt19937 random(1);
  int refused = 0;
  for (int i = 0; i < 203; ++i) {
    std::string changed = index;
    for (uint32_t n = random() % 3 + 1; n > 0; --n)
      changed[random() % changed.size()] = static_cast<char>(random());
    test::write_text(folder / "a.idx", changed);
    try {
      const TokenFile file(folder / "a");
      const std::vector<int32_t> ids = read_all(file);
      for (int64_t at = 0; at < file.tokens(); ++at) EXPECT_GT(file.document_end(file.document_of(at)), at);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::Data) << error.what();
      ++refused;
    }
  }
  EXPECT_GT(refused, 180);
}

TEST(TokenFileWriter, RoundTripsOddDocuments) {
  const ScratchFolder folder;
  const std::vector<int64_t> lengths = {1, 7, 0, 1003, 0, 64, 1};
  test::write_documents(folder / "odd", lengths);
  const TokenFile file(folder / "odd");
  EXPECT_EQ(file.documents(), 7);
  EXPECT_EQ(file.tokens(), 1 + 7 + 1003 + 64 + 1);
  EXPECT_EQ(file.type(), TokenType::U16);
  int64_t end = 0;
  for (size_t i = 0; i < lengths.size(); ++i) {
    end += lengths[i];
    EXPECT_EQ(file.document_end(static_cast<int64_t>(i)), end);
  }
  const std::vector<int32_t> ids = read_all(file, 1003);
  for (size_t i = 0; i < ids.size(); ++i) EXPECT_EQ(ids[i], static_cast<int32_t>(i * 7 % 1003));
  ASSERT_TRUE(file.note());
  EXPECT_EQ(file.note()->tokenizer, "bytes");
  EXPECT_EQ(file.note()->max_id, *std::max_element(ids.begin(), ids.end()));
}

// Ids at the edges of 16 bits, for vocabularies on both sides of the writer's choice of type.
TEST(TokenFileWriter, NeverWrapsIds) {
  for (const int64_t vocab : {257, 65499, 65500, 65535, 65536, 65537, 70000}) {
    const ScratchFolder folder;
    const auto last = static_cast<int32_t>(vocab - 1);
    const std::vector<int32_t> ids = {0, last, 1, std::min(last, 65535), std::min(last, 65534)};
    TokenFileWriter writer(folder / "v", "bytes", vocab);
    EXPECT_EQ(writer.type(), vocab < 65500 ? TokenType::U16 : TokenType::I32);
    writer.add(ids);
    EXPECT_THAT(message_of(ExitCode::Data,
                           [&] {
                             writer.add(std::vector<int32_t>{0, last + 1});
                           }),
                HasSubstr(std::to_string(vocab)));
    EXPECT_THAT(message_of(ExitCode::Data, [&] { writer.add(std::vector<int32_t>{-1}); }), HasSubstr("-1"));
    writer.end_document();
    writer.finish();
    const TokenFile file(folder / "v");
    EXPECT_EQ(read_all(file, vocab), ids);
    EXPECT_EQ(file.note()->max_id, last);
  }
}

// Byte for byte what the format says, for both types.
TEST(TokenFileWriter, WritesTheFormatExactly) {
  const ScratchFolder folder;
  for (const int64_t vocab : {1003, 70000}) {
    test::write_documents(folder / "w", {3, 0, 4}, vocab);
    const int64_t size = vocab == 1003 ? 2 : 4;
    IndexParts parts;
    parts.code = vocab == 1003 ? 8 : 4;
    parts.offsets = {0, 3 * size, 3 * size};
    parts.borders = {0, 1, 2, 3};
    EXPECT_EQ(test::read_text(folder / "w.idx"), parts.text());
    EXPECT_EQ(test::read_text(folder / "w.bin"), size == 2 ? bytes_of<uint16_t>({0, 7, 14, 21, 28, 35, 42})
                                                           : bytes_of<int32_t>({0, 7, 14, 21, 28, 35, 42}));
  }
}

TEST(TokenFileWriter, CutsLongDocumentsIntoSequences) {
  const ScratchFolder folder;
  {
    TokenFileWriter writer(folder / "long", "bytes", 1003, 5);
    std::vector<int32_t> ids(17);
    std::iota(ids.begin(), ids.end(), 0);
    writer.add(std::span(ids).first(3));
    writer.add(std::span(ids).subspan(3));
    writer.end_document();
    writer.add(std::span(ids).first(10));
    writer.end_document();
    writer.finish();
  }
  const TokenFile file(folder / "long");
  EXPECT_EQ(file.sequences(), 4 + 2);
  EXPECT_EQ(file.documents(), 2);
  EXPECT_EQ(file.document_end(0), 17);
  EXPECT_EQ(file.document_end(1), 27);
}

TEST(TokenFileWriter, LeavesNothingBehindWithoutFinish) {
  const ScratchFolder folder;
  {
    TokenFileWriter writer(folder / "half", "bytes", 257);
    writer.add(std::vector<int32_t>{1, 2, 3});
    writer.end_document();
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(TokenFileWriter, LeavesOnlyTheThreeFiles) {
  const ScratchFolder folder;
  test::write_documents(folder / "a", {3, 4});
  test::write_documents(folder / "a", {5});  // over the first
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
    names.push_back(entry.path().filename());
  EXPECT_THAT(names, testing::UnorderedElementsAre("a.bin", "a.idx", "a.meta.json"));
  EXPECT_EQ(TokenFile(folder / "a").tokens(), 5);
}

TEST(TokenFileWriter, NamesAFolderThatCannotBeWritten) {
  EXPECT_THAT(message_of(ExitCode::Data, [] { TokenFileWriter("/nowhere/at/all", "bytes", 257); }),
              HasSubstr("/nowhere/at/all"));
}

TEST(TokenFile, RefusesANoteOfOtherData) {
  const ScratchFolder folder;
  test::write_documents(folder / "a", {3, 4});
  test::write_documents(folder / "b", {3, 5});
  std::filesystem::copy_file(folder / "b.meta.json", folder / "a.meta.json",
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_THAT(message_of(ExitCode::Data, [&] { TokenFile file(folder / "a"); }), HasSubstr("a.meta.json"));
  test::write_text(folder / "a.meta.json", "{\"tokenizer\": 3}");
  EXPECT_THAT(message_of(ExitCode::Data, [&] { TokenFile file(folder / "a"); }), HasSubstr("damaged"));
}

TEST(TokenFile, FingerprintFollowsTheContent) {
  const ScratchFolder folder;
  test::write_documents(folder / "a", {3, 4});
  test::write_documents(folder / "b", {3, 4});
  test::write_documents(folder / "c", {4, 3});
  const std::string mark = TokenFile(folder / "a").fingerprint();
  EXPECT_EQ(mark.size(), 16u);
  EXPECT_EQ(TokenFile(folder / "b").fingerprint(), mark);
  EXPECT_NE(TokenFile(folder / "c").fingerprint(), mark);
  std::string bin = test::read_text(folder / "b.bin");
  bin[5] = static_cast<char>(bin[5] ^ 1);
  test::write_text(folder / "b.bin", bin);
  EXPECT_NE(TokenFile(folder / "b").fingerprint(), mark);
}

}  // namespace
}  // namespace tessera
