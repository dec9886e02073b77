// SPDX-License-Identifier: Apache-2.0
#include "framework/base/markup.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(Markup, NothingOfATextIsMarkup) {
  EXPECT_EQ(escape_markup("<a href=\"x\" b='y'>&amp;"),
            "&lt;a href=&quot;x&quot; b=&#39;y&#39;&gt;&amp;amp;");
  EXPECT_EQ(escape_markup("größer\n\t"), "größer\n\t");
}

TEST(Markup, WhatXmlCannotHoldIsReplaced) {
  using namespace std::string_view_literals;
  EXPECT_EQ(escape_markup("a\0b\x1b"sv), "a\uFFFDb\uFFFD");
  EXPECT_EQ(escape_markup("\uFFFF.\uFFFE.\uFFFD"), "\uFFFD.\uFFFD.\uFFFD");
}

}  // namespace
}  // namespace tessera
