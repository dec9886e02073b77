// SPDX-License-Identifier: Apache-2.0
// UTF-8, normal forms, the byte alphabet and patterns.
#include <gtest/gtest.h>

#include "framework/base/check.h"
#include "framework/tokenizer/byte_alphabet.h"
#include "framework/tokenizer/pattern.h"
#include "framework/tokenizer/unicode.h"
#include "framework/tokenizer/utf8.h"

namespace tessera {
namespace {

TEST(Utf8, KnowsEveryCharacterAndNothingElse) {
  for (char32_t c = 0; c < 0x110000; ++c) {
    std::string text;
    append_utf8(text, c);
    const bool surrogate = c >= 0xD800 && c < 0xE000;
    ASSERT_EQ(utf8_length(text), surrogate ? 0 : static_cast<int>(text.size())) << static_cast<uint32_t>(c);
    if (surrogate) continue;
    ASSERT_EQ(utf8_value(text.data(), static_cast<int>(text.size())), c);
    for (size_t cut = 1; cut < text.size(); ++cut)
      ASSERT_EQ(utf8_length(std::string_view(text).substr(0, cut)), -1);
  }
  for (const char* bad : {"\x80", "\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xF0\x8F\xBF\xBF",
                          "\xF4\x90\x80\x80", "\xF8", "\xFF", "\xE2\x28\xA1", "\xE2\x82\x28"})
    EXPECT_EQ(utf8_length(bad), 0) << bad;
}

TEST(Utf8, MeasuresValidAndInvalidText) {
  EXPECT_EQ(valid_utf8("abcdefgh\xC3\xA9\xFFz"), 10u);
  EXPECT_EQ(valid_utf8("abc\xE2\x82"), 3u);
  EXPECT_EQ(invalid_utf8("\xE2\x82z"), 2u);
  EXPECT_EQ(invalid_utf8("\xF0\x9F\x98z"), 3u);
  EXPECT_EQ(invalid_utf8("\xED\xA0\x80"), 1u);
  EXPECT_EQ(invalid_utf8("\xC0\x80"), 1u);
  EXPECT_EQ(invalid_utf8("\xFF"), 1u);
}

TEST(ByteAlphabet, IsOneToOne) {
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes.push_back(static_cast<char>(i));
  const std::string text = to_byte_alphabet(bytes);
  EXPECT_EQ(from_byte_alphabet(text), bytes);
  EXPECT_EQ(to_byte_alphabet(" a\n"),
            "\xC4\xA0"
            "a\xC4\x8A");
  EXPECT_FALSE(from_byte_alphabet("\xE4\xB8\xAD"));
  EXPECT_FALSE(from_byte_alphabet(" "));
}

TEST(NormalForm, Composes) {
  EXPECT_EQ(normalized("e\xCC\x81", NormalForm::Nfc), "\xC3\xA9");
  EXPECT_EQ(normalized("\xC3\xA9", NormalForm::Nfd), "e\xCC\x81");
  EXPECT_EQ(normalized("\xEF\xAC\x81", NormalForm::Nfkc), "fi");
  EXPECT_EQ(normalized("\xE1\x84\x80\xE1\x85\xA1", NormalForm::Nfc), "\xEA\xB0\x80");
  EXPECT_EQ(normalized("x\xCC\x81\xCC\xA3", NormalForm::Nfd), "x\xCC\xA3\xCC\x81");
  EXPECT_EQ(normalized("", NormalForm::Nfc), "");
  // U+11A7 stands in front of the final consonants of Hangul and is none of them.
  EXPECT_EQ(normalized("\xED\x9D\xAC\xE1\x86\xA7", NormalForm::Nfc), "\xED\x9D\xAC\xE1\x86\xA7");
}

std::vector<std::string> matches(const char* expression, std::string_view text) {
  const TextPattern pattern(expression, "test");
  Matcher matcher(pattern);
  std::vector<std::string> found;
  for (size_t at = 0; at < text.size() && matcher.find(text, at, false) == Matcher::Result::Match;
       at = matcher.end())
    found.emplace_back(text.substr(matcher.begin(), matcher.end() - matcher.begin()));
  return found;
}

TEST(TextPattern, MeansWhatTokenizerFilesMean) {
  using Found = std::vector<std::string>;
  EXPECT_EQ(matches("\\p{L}+", "ab1\xC3\xA9"), (Found{"ab", "\xC3\xA9"}));
  // U+180E is no white space; U+0085 is.
  EXPECT_EQ(matches("\\s", "\xE1\xA0\x8E\xC2\x85"), (Found{"\xC2\x85"}));
  EXPECT_EQ(matches("[^\\s]+", "a b"), (Found{"a", "b"}));
  EXPECT_EQ(matches("[\\u4e00-\\u9fa5]+", "x\xE4\xB8\xAD"), (Found{"\xE4\xB8\xAD"}));
  EXPECT_EQ(matches("\\S+",
                    "a\xE3\x80\x80"
                    "b"),
            (Found{"a", "b"}));
}

TEST(TextPattern, SaysWhatMoreTextCouldChange) {
  const TextPattern pattern("ab+|\\s+(?!\\S)|\\s+", "test");
  Matcher matcher(pattern);
  EXPECT_EQ(matcher.find("xabb", 0, true), Matcher::Result::Undecided);
  EXPECT_EQ(matcher.begin(), 1u);
  EXPECT_EQ(matcher.find("xabbx", 0, true), Matcher::Result::Match);
  EXPECT_EQ(matcher.end(), 4u);
  EXPECT_EQ(matcher.find("xabb", 0, false), Matcher::Result::Match);
  EXPECT_EQ(matcher.find("x", 0, true), Matcher::Result::None);
  EXPECT_EQ(matcher.find("  ", 0, true), Matcher::Result::Undecided);
}

TEST(TextPattern, KnowsWhichOnlyLookAhead) {
  EXPECT_TRUE(TextPattern("a(?=b)[^c]", "test").looks_ahead_only());
  for (const char* looks_back : {"(?<=a)b", "(?<!a)b", "^a", "a$", "\\ba", "\\Aa"})
    EXPECT_FALSE(TextPattern(looks_back, "test").looks_ahead_only()) << looks_back;
}

TEST(TextPattern, ThatTriesTooManyWaysIsAnError) {
  const TextPattern pattern("(a|aa)+[^a]", "test");
  Matcher matcher(pattern);
  EXPECT_THROW(matcher.find(std::string(60, 'a'), 0, false), Error);
}

TEST(TextPattern, RefusesOtherSyntax) {
  for (const char* other :
       {"\\h", "\\R", "[a&&b]", "[[:alpha:]]", "a{,3}", "[]a]", "(", "[a", "\\", "\\u12", "[\\S]"})
    EXPECT_THROW(TextPattern(other, "test"), Error) << other;
}

}  // namespace
}  // namespace tessera
