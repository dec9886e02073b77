// SPDX-License-Identifier: Apache-2.0
// How the documents of a source become rows of a fixed length, and in which order the rows come. An epoch is
// a sequence of blocks, and a block of rows; a place in the order is (epoch, block, row), so that a run goes
// on in constant time at any depth. Rows are functions of the key and the place: nothing is stored on disk.
#pragma once
#include <array>
#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "framework/base/random.h"
#include "framework/dataset/token_store.h"

namespace tessera {

// A run of tokens of one document, side by side in a row.
struct DocumentPart {
  int64_t document = 0;
  int64_t first = 0, count = 0;  // in tokens; first: its position in the store
  bool ends_document = false;    // its last token is the document's, which has no target
  bool operator==(const DocumentPart&) const = default;
};

// The evaluation part, as the number of an epoch; those of training count from 0.
inline constexpr int64_t kEvaluationEpoch = -1;

// A row in the order of its source.
struct RowPlace {
  int64_t epoch = 0, block = 0, row = 0;
  auto operator<=>(const RowPlace&) const = default;
};

struct PackingReport {
  int64_t train_samples = 0, eval_samples = 0;      // rows of an epoch, or the fewest it can have
  bool exact = true;                                // train_samples and eval_samples are no lower bounds
  int64_t train_documents = 0, eval_documents = 0;  // where documents are divided and not rows
  int64_t used_tokens = 0, dropped_tokens = 0;      // they sum to those of the store
};

class Packing {
 public:
  virtual ~Packing() = default;

  virtual PackingReport report() const = 0;
  // 0 where the part has no tokens.
  virtual int64_t blocks(int64_t epoch) const = 0;
  virtual int64_t rows(int64_t epoch, int64_t block) const = 0;
  // Names the row at a place; with epoch and block it says what the row holds.
  virtual int64_t index(const RowPlace& place) const = 0;
  // The tokens of a row, in order; they fill it, or all but its end.
  virtual std::vector<DocumentPart> parts(int64_t epoch, int64_t block, int64_t index) const = 0;
  // Whether parts begin where documents do or rows are full, and not where a sample was cut.
  virtual bool whole_documents() const = 0;

  // The first place of an epoch, and the one after another within its epoch; none at the end.
  std::optional<RowPlace> first(int64_t epoch) const { return from(epoch, 0); }
  std::optional<RowPlace> after(const RowPlace& place) const;

 private:
  std::optional<RowPlace> from(int64_t epoch, int64_t block) const;
};

struct PackingOptions {
  int64_t length = 0;                    // of a row
  std::array<double, 2> split = {1, 0};  // relative shares for training and evaluation
  RandomKey key;                         // of the source's order
};

// Sample i is the tokens [i L, i L + L] of the store, the last one shared with the next sample; what is left
// at the end is dropped. The first samples are for training and the rest for evaluation. An epoch is one
// block of all samples, permuted; an index is the number of the sample. The store outlives the packing.
// A store without a whole sample gives none.
std::unique_ptr<Packing> make_cut_packing(const TokenStore& store, const PackingOptions& options);

// Whole documents side by side. The first documents are for training and the rest for evaluation; a block is
// kDocumentsPerBlock documents of the epoch's permutation (of evaluation: in their order), each put into the
// first row of the block that has room. A document longer than a row fills whole rows, and what is left of
// it is placed as a document is. Nothing is dropped; an index is the number of the row in its block.
inline constexpr int64_t kDocumentsPerBlock = 4096;
std::unique_ptr<Packing> make_first_fit_packing(const TokenStore& store, const PackingOptions& options);

// Of `count` things the number that is for evaluation. A part that is asked for gets one when there are two.
int64_t evaluation_share(int64_t count, const std::array<double, 2>& split);

}  // namespace tessera
