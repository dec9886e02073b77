// SPDX-License-Identifier: Apache-2.0
#include "framework/dataset/sequence_batch.h"

#include "framework/base/check.h"

namespace tessera {
namespace {

// Padding sees only positions that no row has, and is trained on nothing; its position is one that every
// table of positions has.
void set_padding(HostBatch& part, size_t token) {
  part.tokens[token] = 0;
  part.targets[token] = -1;
  part.weights[token] = 0;
  part.positions[token] = 0;
  part.document_start[token] = static_cast<int32_t>(part.cut.padded_length());
  part.document_ids[token] = -1;
}

void copy_token(const HostBatch& whole, size_t from, HostBatch& part, size_t to) {
  part.tokens[to] = whole.tokens[from];
  part.targets[to] = whole.targets[from];
  part.weights[to] = whole.weights[from];
  part.positions[to] = whole.positions[from];
  part.document_start[to] = whole.document_start[from];
  part.document_ids[to] = whole.document_ids[from];
  part.sources[to] = whole.sources[from];
}

std::vector<int32_t> padded_document_start(const HostBatch& whole, const SequenceCut& cut) {
  const int64_t padded = cut.padded_length();
  std::vector<int32_t> starts(static_cast<size_t>(whole.rows * padded), static_cast<int32_t>(padded));
  for (int64_t row = 0; row < whole.rows; ++row)
    std::copy_n(whole.document_start.begin() + row * whole.length, whole.length,
                starts.begin() + row * padded);
  return starts;
}

}  // namespace

HostBatch cut_batch(HostBatch whole, const SequenceCut& cut) {
  CHECK(whole.cut.whole() && whole.length == cut.length,
        "a batch of rows of {} positions is cut as rows of {}", whole.length, cut.length);
  if (cut.whole()) return whole;
  HostBatch part(0, whole.rows, cut.local_length());
  part.row_ids = whole.row_ids;
  part.source_count = whole.source_count;
  part.cut = cut;
  part.row_document_start = padded_document_start(whole, cut);
  for (int64_t i = 0; i < part.rows * part.length; ++i) {
    const int64_t row = cut.row(i, part.rows), position = cut.position(i, part.rows);
    const auto token = static_cast<size_t>(i);
    part.token_index[token] = part.row_ids[static_cast<size_t>(row)] * cut.length + position;
    if (position < cut.length)
      copy_token(whole, static_cast<size_t>(row * cut.length + position), part, token);
    else
      set_padding(part, token);
  }
  part.count_weights();
  return part;
}

}  // namespace tessera
