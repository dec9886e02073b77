// SPDX-License-Identifier: Apache-2.0
#include "framework/tokenizer/bpe_model.h"

#include <gtest/gtest.h>

#include <random>

#include "framework/base/check.h"

namespace tessera {
namespace {

// All bytes, and tokens over "abc" that random merges make.
BpeVocabulary random_vocabulary(std::mt19937& random, int merges) {
  BpeVocabulary vocabulary;
  for (int byte = 0; byte < 256; ++byte) vocabulary.tokens.emplace_back(1, static_cast<char>(byte));
  std::vector<int32_t> usable = {'a', 'b', 'c'};
  for (int i = 0; i < merges; ++i) {
    const int32_t left = usable[random() % usable.size()], right = usable[random() % usable.size()];
    const std::string text =
        vocabulary.tokens[static_cast<size_t>(left)] + vocabulary.tokens[static_cast<size_t>(right)];
    if (std::find(vocabulary.tokens.begin(), vocabulary.tokens.end(), text) != vocabulary.tokens.end())
      continue;
    const auto result = static_cast<int32_t>(vocabulary.tokens.size());
    vocabulary.tokens.push_back(text);
    vocabulary.merges.push_back({.left = left, .right = right, .result = result, .rank = i});
    usable.push_back(result);
  }
  return vocabulary;
}

// The definition: of all neighbours that a merge joins, the leftmost of the lowest rank, until there are
// none.
std::vector<int32_t> merged_by_definition(const BpeVocabulary& vocabulary, std::string_view word) {
  std::vector<int32_t> ids;
  for (const char c : word) ids.push_back(static_cast<unsigned char>(c));
  while (true) {
    const Merge* best = nullptr;
    size_t at = 0;
    for (size_t i = 0; i + 1 < ids.size(); ++i)
      for (const Merge& merge : vocabulary.merges)
        if (merge.left == ids[i] && merge.right == ids[i + 1] && (!best || merge.rank < best->rank)) {
          best = &merge;
          at = i;
        }
    if (!best) return ids;
    ids[at] = best->result;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
}

TEST(BpeModel, MergesAsDefined) {
  std::mt19937 random(3);
  MergeScratch scratch;
  for (int round = 0; round < 60; ++round) {
    const BpeVocabulary vocabulary = random_vocabulary(random, 25);
    const BpeModel model(vocabulary, "test");
    // Both sides of the length at which the method changes.
    for (const size_t length : {1, 2, 7, 31, 32, 33, 34, 100, 203}) {
      std::string word;
      for (size_t i = 0; i < length; ++i) word += "abc"[random() % (round % 3 + 1)];
      std::vector<int32_t> ids;
      model.merge(word, ids, scratch);
      EXPECT_EQ(ids, merged_by_definition(vocabulary, word)) << word;
    }
  }
}

TEST(BpeModel, NoMergeCrossesABorder) {
  std::mt19937 random(5);
  MergeScratch scratch;
  int borders = 0;
  for (int round = 0; round < 200; ++round) {
    const BpeModel model(random_vocabulary(random, 4), "test");
    std::string word;
    for (int i = 0; i < 40; ++i) word += "abc"[random() % 3];
    std::vector<int32_t> whole, parts;
    model.merge(word, whole, scratch);
    for (std::string_view rest = word; !rest.empty();) {
      const size_t size = model.first_border(rest);
      borders += size < rest.size();
      model.merge(rest.substr(0, size), parts, scratch);
      rest.remove_prefix(size);
    }
    EXPECT_EQ(parts, whole) << word;
  }
  EXPECT_GT(borders, 200);
}

TEST(BpeModel, EveryByteNeedsAToken) {
  BpeVocabulary vocabulary;
  for (int byte = 0; byte < 255; ++byte) vocabulary.tokens.emplace_back(1, static_cast<char>(byte));
  try {
    const BpeModel model(vocabulary, "some.json");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::Data);
    EXPECT_EQ(std::string(error.what()),
              "some.json: no token for the byte 0xFF: some texts could not be encoded");
  }
}

}  // namespace
}  // namespace tessera
