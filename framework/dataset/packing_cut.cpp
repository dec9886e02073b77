// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "framework/base/check.h"
#include "framework/dataset/packing.h"

namespace tessera {
namespace {

class CutPacking final : public Packing {
 public:
  CutPacking(const TokenStore& store, const PackingOptions& options)
      : store_(store),
        length_(options.length),
        key_(options.key),
        samples_(std::max<int64_t>(store.tokens() - 1, 0) / length_),
        eval_samples_(evaluation_share(samples_, options.split)) {}

  PackingReport report() const override {
    const int64_t used = samples_ == 0 ? 0 : samples_ * length_ + 1;
    return {.train_samples = train_samples(),
            .eval_samples = eval_samples_,
            .used_tokens = used,
            .dropped_tokens = store_.tokens() - used};
  }

  int64_t blocks(int64_t epoch) const override { return rows(epoch, 0) > 0 ? 1 : 0; }
  int64_t rows(int64_t epoch, int64_t) const override {
    return epoch == kEvaluationEpoch ? eval_samples_ : train_samples();
  }

  int64_t index(const RowPlace& place) const override {
    if (place.epoch == kEvaluationEpoch) return train_samples() + place.row;
    return static_cast<int64_t>(permuted(static_cast<uint64_t>(place.row),
                                         static_cast<uint64_t>(train_samples()),
                                         mixed(key_, static_cast<uint64_t>(place.epoch))));
  }

  std::vector<DocumentPart> parts(int64_t, int64_t, int64_t index) const override {
    CHECK(index >= 0 && index < samples_, "sample {} of {}", index, samples_);
    std::vector<DocumentPart> parts;
    const int64_t end = (index + 1) * length_;
    int64_t at = index * length_;
    for (int64_t document = store_.document_of(at); at < end; ++document) {
      const int64_t document_end = store_.document_end(document), stop = std::min(document_end, end);
      CHECK_AS(ExitCode::Data, stop >= at, "document {} ends at token {}, before it begins", document,
               document_end);
      if (stop == at) continue;  // an empty document
      parts.push_back(
          {.document = document, .first = at, .count = stop - at, .ends_document = stop == document_end});
      at = stop;
    }
    return parts;
  }

  bool whole_documents() const override { return false; }

 private:
  int64_t train_samples() const { return samples_ - eval_samples_; }

  const TokenStore& store_;
  int64_t length_;
  RandomKey key_;
  int64_t samples_, eval_samples_;
};

}  // namespace

std::unique_ptr<Packing> make_cut_packing(const TokenStore& store, const PackingOptions& options) {
  return std::make_unique<CutPacking>(store, options);
}

}  // namespace tessera
