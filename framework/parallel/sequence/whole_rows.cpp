// SPDX-License-Identifier: Apache-2.0
#include "framework/parallel/sequence/whole_rows.h"

#include "framework/ops/copy.h"
#include "framework/ops/memory.h"

namespace tessera {
namespace {

// A chunk of every row, once among the tokens of its rank and once among whole rows: both [rows, chunk].
struct Places {
  Tensor among_tokens, among_rows;
};

Places places(const Batch& batch, int rank, int half, const Tensor& tokens, const Tensor& rows) {
  const SequenceCut& cut = batch.cut;
  const int64_t chunk = cut.chunk_length(), width = tokens.size(1);
  return {tokens.narrow(half * batch.rows * chunk, batch.rows * chunk).reshape({batch.rows, chunk * width}),
          rows.reshape({batch.rows, cut.padded_length() * width})
              .columns(cut.first_position(rank, half) * width, chunk * width)};
}

}  // namespace

void put_in_rows(Backend& backend, const Batch& batch, int rank, const Tensor& tokens, const Tensor& rows) {
  for (int half = 0; half < batch.cut.halves(); ++half) {
    const Places chunk = places(batch, rank, half, tokens, rows);
    copy(backend, chunk.among_tokens, chunk.among_rows);
  }
}

void take_from_rows(Backend& backend, const Batch& batch, int rank, const Tensor& rows,
                    const Tensor& tokens) {
  for (int half = 0; half < batch.cut.halves(); ++half) {
    const Places chunk = places(batch, rank, half, tokens, rows);
    copy(backend, chunk.among_rows, chunk.among_tokens);
  }
}

Tensor empty_rows(Backend& backend, const Batch& batch, DType dtype, int64_t columns) {
  return empty(backend, dtype, {batch.rows * batch.cut.padded_length(), columns});
}

}  // namespace tessera
