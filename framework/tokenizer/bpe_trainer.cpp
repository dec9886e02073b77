// SPDX-License-Identifier: Apache-2.0
#include "framework/tokenizer/bpe_trainer.h"

#include <algorithm>
#include <queue>
#include <unordered_map>

#include "framework/tokenizer/flat_map.h"

namespace tessera {
namespace {

constexpr int64_t kLeastCount = 2;

struct Candidate {
  int64_t count = 0;
  uint64_t pair = 0;
  bool operator<(const Candidate& other) const {  // whether the other goes first
    return count != other.count ? count < other.count : pair > other.pair;
  }
};

class Trainer {
 public:
  explicit Trainer(const std::vector<CountedWord>& words) {
    for (int byte = 0; byte < 256; ++byte) id_of(std::string(1, static_cast<char>(byte)));
    for (const CountedWord& word : words) {
      std::vector<int32_t>& ids = words_.emplace_back();
      for (const char byte : word.bytes) ids.push_back(static_cast<unsigned char>(byte));
      counts_.push_back(word.count);
      count_pairs(words_.size() - 1, 1, -1);
    }
    queue_touched();
  }

  TrainedBpe run(int64_t vocab_size) {
    TrainedBpe trained;
    while (static_cast<int64_t>(texts_.size()) < vocab_size && !queue_.empty()) {
      Candidate best = queue_.top();
      queue_.pop();
      const int64_t count = *pair_counts_.find(best.pair);
      if (count < kLeastCount) continue;
      if (count != best.count) {  // some of its places went into other tokens
        queue_.push({count, best.pair});
        continue;
      }
      trained.merges.push_back(merge(best.pair));
    }
    trained.tokens = std::move(texts_);
    return trained;
  }

 private:
  int32_t id_of(const std::string& text) {
    const auto [place, fresh] = ids_.emplace(text, static_cast<int32_t>(texts_.size()));
    if (fresh) texts_.push_back(text);
    return place->second;
  }

  void queue_touched() {
    std::sort(touched_.begin(), touched_.end());
    touched_.erase(std::unique(touched_.begin(), touched_.end()), touched_.end());
    for (const uint64_t pair : touched_)
      if (const int64_t count = *pair_counts_.find(pair); count > 0) queue_.push({count, pair});
    touched_.clear();
  }

  // Adds or takes away the pairs of a word. Only pairs with the `fresh` token can become more frequent.
  void count_pairs(size_t word, int64_t sign, int32_t fresh) {
    const std::vector<int32_t>& ids = words_[word];
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      const uint64_t pair = pair_key(ids[i], ids[i + 1]);
      int64_t& count = pair_counts_[pair];
      if (sign > 0 && (fresh < 0 || ids[i] == fresh || ids[i + 1] == fresh)) touched_.push_back(pair);
      count += sign * counts_[word];
      std::vector<uint32_t>& places = places_[pair];
      if (sign > 0 && (places.empty() || places.back() != word))
        places.push_back(static_cast<uint32_t>(word));
    }
  }

  std::pair<std::string, std::string> merge(uint64_t pair) {
    const auto left = static_cast<int32_t>(pair >> 32), right = static_cast<int32_t>(pair & UINT32_MAX);
    const std::string left_text = texts_[static_cast<size_t>(left)],
                      right_text = texts_[static_cast<size_t>(right)];
    const int32_t result = id_of(left_text + right_text);
    std::vector<uint32_t> places = std::move(places_[pair]);
    places_.erase(pair);
    std::sort(places.begin(), places.end());
    places.erase(std::unique(places.begin(), places.end()), places.end());
    for (const uint32_t word : places) {
      count_pairs(word, -1, result);
      join(words_[word], left, right, result);
      count_pairs(word, 1, result);
    }
    queue_touched();
    return {left_text, right_text};
  }

  static void join(std::vector<int32_t>& ids, int32_t left, int32_t right, int32_t result) {
    size_t to = 0;
    for (size_t from = 0; from < ids.size(); ++from, ++to) {
      const bool here = ids[from] == left && from + 1 < ids.size() && ids[from + 1] == right;
      ids[to] = here ? result : ids[from];
      from += here;
    }
    ids.resize(to);
  }

  std::vector<std::string> texts_;
  std::unordered_map<std::string, int32_t> ids_;
  std::vector<std::vector<int32_t>> words_;
  std::vector<int64_t> counts_;
  FlatMap<int64_t> pair_counts_;
  std::unordered_map<uint64_t, std::vector<uint32_t>> places_;  // words that hold or held the pair
  std::vector<uint64_t> touched_;                               // pairs that may have become more frequent
  std::priority_queue<Candidate> queue_;
};

}  // namespace

TrainedBpe train_bpe(const std::vector<CountedWord>& words, int64_t vocab_size) {
  return Trainer(words).run(vocab_size);
}

}  // namespace tessera
