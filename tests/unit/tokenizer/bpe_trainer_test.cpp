// SPDX-License-Identifier: Apache-2.0
#include "framework/tokenizer/bpe_trainer.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "framework/tokenizer/tokenizer.h"

namespace tessera {
namespace {

// The definition, with token texts for ids: count all pairs anew before each merge.
std::vector<std::pair<std::string, std::string>> merges_by_definition(const std::vector<CountedWord>& words,
                                                                      size_t tokens) {
  std::vector<std::string> texts;
  for (int byte = 0; byte < 256; ++byte) texts.emplace_back(1, static_cast<char>(byte));
  std::vector<std::vector<size_t>> split;
  for (const CountedWord& word : words) {
    split.emplace_back();
    for (const char byte : word.bytes) split.back().push_back(static_cast<unsigned char>(byte));
  }
  std::vector<std::pair<std::string, std::string>> merges;
  while (texts.size() < tokens) {
    std::map<std::pair<size_t, size_t>, int64_t> counts;
    for (size_t w = 0; w < split.size(); ++w)
      for (size_t i = 0; i + 1 < split[w].size(); ++i)
        counts[{split[w][i], split[w][i + 1]}] += words[w].count;
    std::pair<size_t, size_t> best;
    int64_t most = 1;
    for (const auto& [pair, count] : counts)
      if (count > most) {
        best = pair;
        most = count;
      }
    if (most == 1) return merges;
    merges.emplace_back(texts[best.first], texts[best.second]);
    const std::string text = texts[best.first] + texts[best.second];
    const auto id = static_cast<size_t>(std::find(texts.begin(), texts.end(), text) - texts.begin());
    if (id == texts.size()) texts.push_back(text);
    for (auto& ids : split)
      for (size_t i = 0; i + 1 < ids.size(); ++i)
        if (ids[i] == best.first && ids[i + 1] == best.second) {
          ids[i] = id;
          ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(i) + 1);
        }
  }
  return merges;
}

std::vector<CountedWord> random_words(std::mt19937& random) {
  std::vector<CountedWord> words;
  for (int i = 0; i < 60; ++i) {
    CountedWord& word = words.emplace_back();
    for (size_t length = 1 + random() % 12; length > 0; --length) word.bytes += "abcd"[random() % 4];
    word.count = 1 + static_cast<int64_t>(random() % 9);
  }
  return words;
}

TEST(TrainBpe, FollowsTheDefinition) {
  std::mt19937 random(13);
  for (int round = 0; round < 20; ++round) {
    const std::vector<CountedWord> words = random_words(random);
    const TrainedBpe trained = train_bpe(words, 330);
    EXPECT_EQ(trained.merges, merges_by_definition(words, 330));
    EXPECT_GT(trained.tokens.size(), 300u);
    EXPECT_LE(trained.tokens.size(), 330u);
  }
}

TEST(TrainBpe, CountsMayExceed32Bits) {
  std::mt19937 random(17);
  std::vector<CountedWord> words = random_words(random), many = words;
  for (CountedWord& word : many) word.count *= int64_t{1} << 33;
  EXPECT_EQ(train_bpe(words, 300).merges, train_bpe(many, 300).merges);
}

TEST(TrainBpe, StopsWhenNothingRepeats) {
  const TrainedBpe trained = train_bpe({{"abc", 1}}, 1000);
  EXPECT_TRUE(trained.merges.empty());
  EXPECT_EQ(trained.tokens.size(), 256u);
}

TEST(TrainBpe, ItsFileIsReadAndEncodesByItsMerges) {
  const TrainedBpe trained = train_bpe({{"hello", 10}, {" hello", 10}, {" help", 4}}, 270);
  const std::string folder = testing::TempDir() + "trained_tokenizer";
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/tokenizer.json") << write_tokenizer_json(trained);
  const auto tokenizer = make_tokenizer("bpe", {.path = folder});
  EXPECT_EQ(tokenizer->vocab_size(), static_cast<int64_t>(trained.tokens.size()) + 1);
  EXPECT_EQ(tokenizer->end_of_document(), tokenizer->vocab_size() - 1);
  const std::vector<int32_t> ids = tokenizer->encode("hello hello");
  ASSERT_EQ(ids.size(), 2u);
  EXPECT_EQ(tokenizer->text_of(ids[0]), "hello");
  EXPECT_EQ(tokenizer->text_of(ids[1]), " hello");
}

}  // namespace
}  // namespace tessera
