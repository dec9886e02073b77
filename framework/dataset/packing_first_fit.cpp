// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <mutex>

#include "framework/base/check.h"
#include "framework/dataset/packing.h"

namespace tessera {
namespace {

// Finds the first of many bins with enough room in logarithmic time: a binary tree of the most room below.
class RoomTree {
 public:
  explicit RoomTree(int64_t bins)
      : leaves_(std::bit_ceil(static_cast<size_t>(std::max<int64_t>(bins, 1)))), room_(2 * leaves_, 0) {}

  // The first bin with at least `needed` > 0, if any.
  std::optional<size_t> first(int64_t needed) const {
    if (room_[1] < needed) return std::nullopt;
    size_t node = 1;
    while (node < leaves_) node = room_[2 * node] >= needed ? 2 * node : 2 * node + 1;
    return node - leaves_;
  }

  int64_t room(size_t bin) const { return room_[leaves_ + bin]; }
  void set(size_t bin, int64_t room) {
    size_t node = leaves_ + bin;
    for (room_[node] = room; node > 1; node /= 2) room_[node / 2] = std::max(room_[node], room_[node ^ 1]);
  }

 private:
  size_t leaves_;
  std::vector<int64_t> room_;  // by node: 1 is the root, the children of n are 2 n and 2 n + 1
};

// One block of documents in rows. A bin is one row of several parts, or the whole rows of one long document.
class PackedBlock {
 public:
  PackedBlock(const TokenStore& store, const std::vector<int64_t>& documents, int64_t length)
      : length_(length), open_(static_cast<int64_t>(2 * documents.size())) {
    for (const int64_t document : documents) add(store, document);
    for (Bin& bin : bins_) {
      bin.first_row = rows_;
      rows_ += bin.rows;
    }
    open_ = RoomTree(0);  // of no use any more
  }

  int64_t rows() const { return rows_; }

  std::vector<DocumentPart> row(int64_t row) const {
    CHECK(row >= 0 && row < rows_, "row {} of a block of {}", row, rows_);
    const auto after = std::upper_bound(bins_.begin(), bins_.end(), row,
                                        [](int64_t r, const Bin& bin) { return r < bin.first_row; });
    const Bin& bin = *std::prev(after);
    if (bin.rows == 1) return bin.parts;
    const DocumentPart& whole = bin.parts[0];
    const int64_t number = row - bin.first_row;
    return {{.document = whole.document,
             .first = whole.first + number * length_,
             .count = length_,
             .ends_document = whole.ends_document && number + 1 == bin.rows}};
  }

 private:
  struct Bin {
    int64_t rows = 1, first_row = 0;
    std::vector<DocumentPart> parts;
  };

  void add(const TokenStore& store, int64_t document) {
    const int64_t first = store.document_begin(document);
    const int64_t tokens = store.document_end(document) - first;
    CHECK_AS(ExitCode::Data, tokens >= 0, "document {} ends {} tokens before it begins", document, -tokens);
    const int64_t whole_rows = tokens / length_, left = tokens % length_;
    if (whole_rows > 0)
      bins_.push_back({.rows = whole_rows, .parts = {{document, first, whole_rows * length_, left == 0}}});
    if (left == 0) return;
    std::optional<size_t> bin = open_.first(left);
    if (!bin) {
      bin = bins_.size();
      bins_.emplace_back();
      open_.set(*bin, length_);
    }
    bins_[*bin].parts.push_back({document, first + whole_rows * length_, left, true});
    open_.set(*bin, open_.room(*bin) - left);
  }

  int64_t length_, rows_ = 0;
  std::vector<Bin> bins_;
  RoomTree open_;
};

class FirstFitPacking final : public Packing {
 public:
  FirstFitPacking(const TokenStore& store, const PackingOptions& options)
      : store_(store),
        length_(options.length),
        key_(options.key),
        eval_documents_(evaluation_share(store.documents(), options.split)) {}

  PackingReport report() const override {
    const int64_t train = tokens_of(0), eval = store_.tokens() - train;
    return {.train_samples = (train + length_ - 1) / length_,
            .eval_samples = (eval + length_ - 1) / length_,
            .exact = false,
            .train_documents = train_documents(),
            .eval_documents = eval_documents_,
            .used_tokens = store_.tokens()};
  }

  int64_t blocks(int64_t epoch) const override {
    if (tokens_of(epoch) == 0) return 0;
    return (documents_of(epoch) + kDocumentsPerBlock - 1) / kDocumentsPerBlock;
  }
  int64_t rows(int64_t epoch, int64_t block) const override { return packed(epoch, block)->rows(); }
  int64_t index(const RowPlace& place) const override { return place.row; }
  std::vector<DocumentPart> parts(int64_t epoch, int64_t block, int64_t index) const override {
    return packed(epoch, block)->row(index);
  }
  bool whole_documents() const override { return true; }

 private:
  int64_t train_documents() const { return store_.documents() - eval_documents_; }
  int64_t documents_of(int64_t epoch) const {
    return epoch == kEvaluationEpoch ? eval_documents_ : train_documents();
  }
  int64_t tokens_of(int64_t epoch) const {
    const int64_t train = train_documents() == 0 ? 0 : store_.document_end(train_documents() - 1);
    return epoch == kEvaluationEpoch ? store_.tokens() - train : train;
  }

  std::vector<int64_t> documents_of_block(int64_t epoch, int64_t block) const {
    const int64_t count = documents_of(epoch);
    CHECK(block >= 0 && block * kDocumentsPerBlock < count, "block {} of {} documents", block, count);
    std::vector<int64_t> documents;
    for (int64_t at = block * kDocumentsPerBlock; at < std::min(count, (block + 1) * kDocumentsPerBlock);
         ++at)
      documents.push_back(
          epoch == kEvaluationEpoch
              ? train_documents() + at
              : static_cast<int64_t>(permuted(static_cast<uint64_t>(at), static_cast<uint64_t>(count),
                                              mixed(key_, static_cast<uint64_t>(epoch)))));
    return documents;
  }

  // Packs a block, or takes one of the last few: a batch may cross blocks, and evaluation comes between.
  std::shared_ptr<const PackedBlock> packed(int64_t epoch, int64_t block) const {
    const std::lock_guard lock(mutex_);
    for (const Cached& cached : cache_)
      if (cached.epoch == epoch && cached.block == block) return cached.packed;
    store_.check_unchanged();
    Cached& oldest = cache_[next_++ % cache_.size()];
    oldest = {epoch, block, std::make_shared<PackedBlock>(store_, documents_of_block(epoch, block), length_)};
    return oldest.packed;
  }

  struct Cached {
    int64_t epoch = 0, block = -1;
    std::shared_ptr<const PackedBlock> packed;
  };

  const TokenStore& store_;
  int64_t length_;
  RandomKey key_;
  int64_t eval_documents_;
  mutable std::mutex mutex_;
  mutable std::array<Cached, 8> cache_;
  mutable size_t next_ = 0;
};

}  // namespace

std::unique_ptr<Packing> make_first_fit_packing(const TokenStore& store, const PackingOptions& options) {
  return std::make_unique<FirstFitPacking>(store, options);
}

}  // namespace tessera
