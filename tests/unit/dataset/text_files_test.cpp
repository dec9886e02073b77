// SPDX-License-Identifier: Apache-2.0
#include "framework/dataset/text_files.h"

#include <gmock/gmock.h>

#include "tests/unit/dataset/scratch.h"

namespace tessera {
namespace {

using test::message_of;
using test::ScratchFolder;
using testing::HasSubstr;

std::vector<int32_t> expected_ids(const std::vector<std::string>& documents) {
  std::vector<int32_t> ids;
  for (const std::string& document : documents) {
    for (const char c : document) ids.push_back(static_cast<unsigned char>(c));
    ids.push_back(256);
  }
  return ids;
}

TEST(TextFiles, AFileIsOneDocument) {
  const ScratchFolder folder;
  std::string text;
  for (int i = 0; i < 10007; ++i) text.push_back(static_cast<char>(i * 31 % 256));
  test::write_text(folder / "a.txt", text);
  const TextFiles files(folder / "a.txt", 256);
  EXPECT_EQ(files.documents(), 1);
  ASSERT_EQ(files.tokens(), 10008);
  std::vector<int32_t> ids(10008);
  files.read(0, 257, ids);
  EXPECT_EQ(ids, expected_ids({text}));
}

TEST(TextFiles, AFolderIsADocumentForEachFileInOrder) {
  const ScratchFolder folder;
  test::write_text(folder / "b.txt", "bbb");
  test::write_text(folder / "a/z.txt", "z");
  test::write_text(folder / "a/empty.txt", "");
  test::write_text(folder / "a.txt", "aaaaaaa");
  test::write_text(folder / ".hidden", "no");
  const TextFiles files(folder.path(), 256);
  const std::vector<int32_t> all = expected_ids({"aaaaaaa", "z", "bbb"});
  EXPECT_EQ(files.documents(), 3);
  ASSERT_EQ(files.tokens(), 14);
  EXPECT_EQ(files.document_end(0), 8);
  EXPECT_EQ(files.document_end(1), 10);
  // Every range, so that each begins and ends somewhere else.
  for (int64_t first = 0; first < 14; ++first) {
    for (int64_t end = first; end <= 14; ++end) {
      std::vector<int32_t> ids(static_cast<size_t>(end - first));
      files.read(first, 257, ids);
      EXPECT_EQ(ids, std::vector<int32_t>(all.begin() + first, all.begin() + end));
    }
  }
}

TEST(TextFiles, RefusesWhatIsNoText) {
  const ScratchFolder folder;
  EXPECT_THAT(message_of(ExitCode::Data, [&] { TextFiles files(folder / "none", 256); }), HasSubstr("none"));
  test::write_text(folder / "a.gz", "zzz");
  EXPECT_THAT(message_of(ExitCode::Usage, [&] { TextFiles files(folder / "a.gz", 256); }),
              HasSubstr("compressed"));
  EXPECT_THAT(message_of(ExitCode::Data, [&] { TextFiles files("/dev/null", 256); }),
              HasSubstr("regular file"));
}

TEST(TextFiles, NoticesAFileThatChangedItsSize) {
  const ScratchFolder folder;
  test::write_text(folder / "a.txt", "one two three");
  const TextFiles files(folder / "a.txt", 256);
  test::write_text(folder / "a.txt", "one two");
  std::vector<int32_t> ids(4);
  EXPECT_THAT(message_of(ExitCode::Data, [&] { files.read(0, 257, ids); }), HasSubstr("had 13 bytes"));
}

TEST(TextFiles, FingerprintFollowsNamesAndContent) {
  const ScratchFolder folder;
  test::write_text(folder / "one/a.txt", "text");
  test::write_text(folder / "two/a.txt", "text");
  test::write_text(folder / "three/b.txt", "text");
  test::write_text(folder / "four/a.txt", "tExt");
  const auto mark = [&](const char* name) { return TextFiles(folder / name, 256).fingerprint(); };
  EXPECT_EQ(mark("one"), mark("two"));
  EXPECT_NE(mark("one"), mark("three"));
  EXPECT_NE(mark("one"), mark("four"));
}

}  // namespace
}  // namespace tessera
