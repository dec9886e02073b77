// SPDX-License-Identifier: Apache-2.0
#include "framework/corpus/train_tokenizer.h"

#include <algorithm>
#include <unordered_map>

#include "framework/tokenizer/bpe_patterns.h"
#include "framework/tokenizer/pre_tokenizer.h"
#include "framework/tokenizer/utf8.h"

namespace tessera {
namespace {

constexpr size_t kLongestWord = 128, kMostWords = 10'000'000;

struct TextHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};
using Counts = std::unordered_map<std::string, int64_t, TextHash, std::equal_to<>>;

// Counts words where other encoders make ids of them.
class CountingEncoder final : public Encoder {
 public:
  CountingEncoder(const std::vector<Split>& splits, Counts& counts) : cutter_(splits), counts_(counts) {}

  void add(std::string_view text, std::vector<int32_t>&) override {
    text_ += text;
    if (text_.size() >= enough_) cut(true);
  }
  void end(std::vector<int32_t>&) override {
    cut(false);
    text_.clear();
    enough_ = 0;
  }
  void go_on() override {}

 private:
  void cut(bool more) {
    text_.erase(0, cutter_.cut(text_, more, [this](std::string_view word) { count(word); }));
    enough_ = 2 * text_.size();
  }

  void count(std::string_view word) {
    if (word.size() > kLongestWord) return;
    const auto found = counts_.find(word);
    if (found != counts_.end()) {
      ++found->second;
      return;
    }
    if (counts_.size() >= kMostWords)
      std::erase_if(counts_, [](const auto& entry) { return entry.second == 1; });
    counts_.emplace(word, 1);
  }

  WordCutter cutter_;
  Counts& counts_;
  std::string text_;
  size_t enough_ = 0;  // bytes at which cutting is tried again
};

// Whatever jobs ask of a tokenizer, so that they count words.
class CountingTokenizer final : public Tokenizer {
 public:
  CountingTokenizer() {
    splits_.push_back({.pattern = TextPattern(kCl100kPattern, "the pattern of words"), .breaks_lines = true});
  }

  std::string_view type() const override { return "words"; }
  std::string name() const override { return "words"; }
  int64_t vocab_size() const override { return 1; }
  int32_t end_of_document() const override { return 0; }
  std::string_view text_of(int32_t) const override { return {}; }
  // Where lines end; a word may be cut in a text without lines.
  size_t last_cut(std::string_view text) const override { return text.rfind('\n') + 1; }
  std::unique_ptr<Encoder> encoder(Controls) const override {
    return std::make_unique<CountingEncoder>(splits_, counts_);
  }
  const Counts& counts() const { return counts_; }

 private:
  std::vector<Split> splits_;
  mutable Counts counts_;  // one encoder at a time
};

}  // namespace

WordCounts count_words(std::vector<InputFile> files, const CorpusOptions& options) {
  const CountingTokenizer tokenizer;
  JobSource source(std::move(files), tokenizer,
                   {.format = options.format, .invalid = options.documents.invalid});
  DocumentEncoder encoder(tokenizer, options.documents);
  WordCounts result;
  while (const auto job = source.next()) {
    EncodedDocuments encoded;
    encoder.run(*job, encoded);
    if (encoded.error) throw *encoded.error;
    result.documents += static_cast<int64_t>(encoded.ids.size());
    result.report.empty += encoded.empty;
    result.report.broken += encoded.broken;
    result.report.replaced += encoded.replaced;
    result.report.input_bytes = job->input_bytes;
    options.progress(job->input_bytes);
  }
  result.report.empty += source.empty_files();
  result.report.broken += source.broken_files();
  for (const auto& [word, count] : tokenizer.counts()) result.words.push_back({word, count});
  std::sort(result.words.begin(), result.words.end(),
            [](const CountedWord& a, const CountedWord& b) { return a.bytes < b.bytes; });
  return result;
}

}  // namespace tessera
