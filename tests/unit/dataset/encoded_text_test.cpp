// SPDX-License-Identifier: Apache-2.0
#include "framework/dataset/encoded_text.h"

#include <gmock/gmock.h>

#include "tests/unit/dataset/scratch.h"

namespace tessera {
namespace {

using test::message_of;
using test::ScratchFolder;

// Ids above 255, so that no byte can be taken for a token.
void encode(std::string_view text, std::vector<int32_t>& ids) {
  for (const char c : text) ids.push_back(300 + c);
  ids.push_back(299);
}

TEST(EncodedText, HasADocumentForEachFileThatIsNotEmpty) {
  const ScratchFolder folder;
  test::write_text(folder / "a/2.txt", "yz");
  test::write_text(folder / "a/1.txt", "x");
  test::write_text(folder / "a/empty.txt", "");
  const EncodedText text(folder / "a", encode);
  ASSERT_EQ(text.tokens(), 5);
  ASSERT_EQ(text.documents(), 2);
  EXPECT_EQ(text.document_end(0), 2);
  EXPECT_EQ(text.document_end(1), 5);
  std::vector<int32_t> ids(5);
  text.read(0, 1003, ids);
  EXPECT_EQ(ids, (std::vector<int32_t>{300 + 'x', 299, 300 + 'y', 300 + 'z', 299}));
  ids.resize(2);
  text.read(2, 1003, ids);
  EXPECT_EQ(ids, (std::vector<int32_t>{300 + 'y', 300 + 'z'}));
  EXPECT_THAT(message_of(ExitCode::Data, [&] { text.read(0, 400, ids); }),
              testing::HasSubstr("has the id 420"));
}

TEST(EncodedText, FingerprintFollowsTheIds) {
  const ScratchFolder folder;
  test::write_text(folder / "a.txt", "x");
  test::write_text(folder / "b.txt", "y");
  const EncodedText a(folder / "a.txt", encode), again(folder / "a.txt", encode), b(folder / "b.txt", encode);
  EXPECT_EQ(a.fingerprint(), again.fingerprint());
  EXPECT_NE(a.fingerprint(), b.fingerprint());
}

}  // namespace
}  // namespace tessera
