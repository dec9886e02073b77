// SPDX-License-Identifier: Apache-2.0
#include "framework/tokenizer/rank_file.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <span>

#include "framework/base/check.h"
#include "framework/tokenizer/bpe_patterns.h"

namespace tessera {
namespace {

struct Control {
  std::string_view text;
  int32_t after;  // id: so many behind the first that is no rank
};

struct Family {
  std::string_view name, pattern;
  int64_t ranks, vocab_size;
  std::vector<Control> controls;
};

const std::vector<Family>& families() {
  static const std::vector<Family> table = {
      {"gpt2", kGpt2Pattern, 50256, 50257, {{"<|endoftext|>", 0}}},
      {"cl100k",
       kCl100kPattern,
       100256,
       100277,
       {{"<|endoftext|>", 1},
        {"<|fim_prefix|>", 2},
        {"<|fim_middle|>", 3},
        {"<|fim_suffix|>", 4},
        {"<|endofprompt|>", 20}}},
      {"llama3",
       kCl100kPattern,
       128000,
       128256,
       {{"<|end_of_text|>", 1},
        {"<|begin_of_text|>", 0},
        {"<|start_header_id|>", 6},
        {"<|end_header_id|>", 7},
        {"<|eot_id|>", 9}}},
      {"qwen", kQwenPattern, 151643, 151851, {{"<|endoftext|>", 0}, {"<|im_start|>", 1}, {"<|im_end|>", 2}}},
      {"o200k", kO200kPattern, 199998, 200019, {{"<|endoftext|>", 1}, {"<|endofprompt|>", 20}}},
  };
  return table;
}

std::string known_families() {
  std::string text;
  for (const Family& family : families())
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", family.name, family.ranks);
  return text;
}

Family family_of(int64_t ranks, const std::string& file, std::string_view pattern) {
  for (const Family& family : families()) {
    if (pattern.empty() ? family.ranks != ranks : family.name != pattern) continue;
    if (family.ranks == ranks) return family;
    // Ranks of one's own with a known pattern have one control token, behind them.
    return {family.name, family.pattern, ranks, ranks + 1, {{"<|endoftext|>", 0}}};
  }
  CHECK_AS(ExitCode::Usage, pattern.empty(), "tokenizer.pattern = \"{}\" is not known (known: {})", pattern,
           known_families());
  fail(ExitCode::Data,
       "{}: {} ranks belong to no known family (ranks of the known: {}); name the pattern in "
       "tokenizer.pattern",
       file, ranks, known_families());
}

constexpr auto kBase64 = [] {
  std::array<int8_t, 256> values{};
  values.fill(-1);
  constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (size_t i = 0; i < digits.size(); ++i)
    values[static_cast<unsigned char>(digits[i])] = static_cast<int8_t>(i);
  return values;
}();

bool decode_base64(std::string_view text, std::string& bytes) {
  bytes.clear();
  if (text.empty() || text.size() % 4 != 0) return false;
  const size_t padding = text.ends_with("==") ? 2 : text.ends_with("=") ? 1 : 0;
  text.remove_suffix(padding);
  uint32_t bits = 0, count = 0;
  for (const char c : text) {
    const int value = kBase64[static_cast<unsigned char>(c)];
    if (value < 0) return false;
    bits = bits << 6 | static_cast<uint32_t>(value);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes.push_back(static_cast<char>(bits >> count & 0xFF));
  }
  return (bits & ((1U << count) - 1)) == 0;
}

// Tokens of published files have up to 128 bytes; each way to cut a token in two is a merge.
constexpr size_t kLongestToken = 1024;

std::vector<std::string> read_ranks(std::string_view content, const std::string& file) {
  std::vector<std::string> tokens;
  std::string bytes;
  for (int64_t number = 1; !content.empty(); ++number) {
    std::string_view line = content.substr(0, content.find('\n'));
    content.remove_prefix(std::min(content.size(), line.size() + 1));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    const size_t space = line.find(' ');
    int64_t rank = -1;
    const char* const end = line.data() + line.size();
    const bool read = space != std::string_view::npos && decode_base64(line.substr(0, space), bytes) &&
                      std::from_chars(line.data() + space + 1, end, rank).ptr == end;
    CHECK_AS(ExitCode::Data, read, "{}:{}: not a token in base64, a space and its rank", file, number);
    CHECK_AS(ExitCode::Data, rank == static_cast<int64_t>(tokens.size()),
             "{}:{}: rank {}, where {} comes next: ranks count up from 0", file, number, rank, tokens.size());
    CHECK_AS(ExitCode::Data, bytes.size() <= kLongestToken, "{}:{}: a token of {} bytes", file, number,
             bytes.size());
    tokens.push_back(bytes);
  }
  return tokens;
}

// Every way to make a token of two others.
std::vector<Merge> merges_of(const std::vector<std::string>& tokens, const std::string& file) {
  std::unordered_map<std::string_view, int32_t> ids;
  for (size_t id = 0; id < tokens.size(); ++id) {
    const bool fresh = ids.emplace(tokens[id], static_cast<int32_t>(id)).second;
    CHECK_AS(ExitCode::Data, fresh, "{}: rank {} has the same token as rank {}", file, id,
             ids.at(tokens[id]));
  }
  std::vector<Merge> merges;
  for (size_t id = 0; id < tokens.size(); ++id) {
    const std::string_view token = tokens[id];
    const auto result = static_cast<int32_t>(id);
    for (size_t cut = 1; cut < token.size(); ++cut) {
      const auto left = ids.find(token.substr(0, cut)), right = ids.find(token.substr(cut));
      if (left != ids.end() && right != ids.end())
        merges.push_back({.left = left->second, .right = right->second, .result = result, .rank = result});
    }
  }
  return merges;
}

}  // namespace

BpeDefinition read_rank_file(std::string_view content, const std::string& file, std::string_view pattern) {
  BpeDefinition definition;
  BpeVocabulary& vocabulary = definition.vocabulary;
  vocabulary.tokens = read_ranks(content, file);
  vocabulary.whole_words = true;
  const auto ranks = static_cast<int64_t>(vocabulary.tokens.size());
  const Family family = family_of(ranks, file, pattern);
  vocabulary.merges = merges_of(vocabulary.tokens, file);
  definition.splits.push_back({.pattern = TextPattern(family.pattern, file), .breaks_lines = true});
  for (const Control& control : family.controls)
    definition.added.push_back({.text = std::string(control.text),
                                .id = static_cast<int32_t>(ranks) + control.after,
                                .control = true,
                                .normalized = false});
  definition.vocab_size = family.vocab_size;
  return definition;
}

}  // namespace tessera
