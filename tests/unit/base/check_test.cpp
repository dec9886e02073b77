// SPDX-License-Identifier: Apache-2.0
#include "framework/base/check.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(Error, QuotesNoControlCharacterOfAFile) {
  const Error error(ExitCode::Data, std::string_view("a\x1b[2Jb\0c\x7f\r\td\n\u00e9", 15));
  EXPECT_STREQ(error.what(), "a\\x1b[2Jb\\x00c\\x7f\\x0d\td\n\u00e9");
  EXPECT_EQ(error.code(), ExitCode::Data);
}

}  // namespace
}  // namespace tessera
