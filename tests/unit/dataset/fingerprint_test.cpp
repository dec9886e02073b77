// SPDX-License-Identifier: Apache-2.0
#include "framework/dataset/fingerprint.h"

#include <gtest/gtest.h>

#include "tests/unit/dataset/scratch.h"

namespace tessera {
namespace {

std::string mark_of(std::initializer_list<std::string_view> texts) {
  Fingerprint mark;
  for (const std::string_view text : texts) mark.add(text);
  return mark.digits();
}

TEST(Fingerprint, KeepsTextsApart) {
  EXPECT_EQ(mark_of({"ab", "c"}), mark_of({"ab", "c"}));
  EXPECT_NE(mark_of({"ab", "c"}), mark_of({"a", "bc"}));
  EXPECT_NE(mark_of({"ab"}), mark_of({"ab", ""}));
}

// A sparse file of 33 MiB: the size and both ends count.
TEST(Fingerprint, SeesSizeAndEndsOfLargeFiles) {
  const test::ScratchFolder folder;
  const auto mark = [&](int64_t size, int64_t changed) {
    test::write_text(folder / "large", "");
    std::filesystem::resize_file(folder / "large", static_cast<uintmax_t>(size));
    std::fstream file(folder / "large", std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(changed);
    file.put('x');
    file.close();
    Fingerprint result;
    result.add_content(File::open_to_read(folder / "large"));
    return result.digits();
  };
  const int64_t size = int64_t{33} << 20;
  const std::string first = mark(size, 0);
  EXPECT_EQ(mark(size, 0), first);
  EXPECT_NE(mark(size + 1, 0), first);
  EXPECT_NE(mark(size, 1003), first);
  EXPECT_NE(mark(size, size - 1), first);
}

}  // namespace
}  // namespace tessera
