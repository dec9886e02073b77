// SPDX-License-Identifier: Apache-2.0
// Rows of a global batch in host memory, and their copy on a device. Rows past the last sample are padding:
// weight 0, no targets, and each position sees only itself, so they train and influence nothing.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "framework/base/quantity.h"
#include "framework/nn/context.h"

namespace tessera {

// The row of one sample; each span has the length of a row.
struct RowView {
  std::span<int32_t> tokens, targets, positions, document_start;
  std::span<float> weights;
  std::span<int64_t> document_ids;
};

// All arrays are [rows * length] except row_ids; meanings as in Batch.
struct HostBatch {
  // Rows first_row to first_row + rows of a global batch, all of them padding so far.
  HostBatch(int64_t first_row, int64_t rows, int64_t length);

  RowView row(int64_t number);
  void set_source(int64_t row, int64_t source);
  void count_weights();                            // sets weight_sum and trained
  std::vector<int64_t> trained_by_source() const;  // positions with weight > 0 of each

  int64_t rows, length;
  std::vector<int32_t> tokens, targets, positions, document_start;
  std::vector<float> weights;
  std::vector<int64_t> document_ids;  // number of the document in its source; -1 in padding
  std::vector<int32_t> sources;       // number of the source; 0 in padding
  int64_t source_count = 1;
  std::vector<int64_t> row_ids, token_index;
  double weight_sum = 0;
  Tokens trained{0};

  // Set by cut_batch (sequence_batch.h), as in Batch; then rows are no longer spans and row() is not for use.
  SequenceCut cut = {};
  std::vector<int32_t> row_document_start;
};

// Which rows of hidden states a rank holds: part `part` of `parts` equal ones, the last ending in padding.
struct HiddenPart {
  int parts = 1, part = 0;
};
Batch upload(const HostBatch& host, Backend& backend, HiddenPart hidden = {});

}  // namespace tessera
