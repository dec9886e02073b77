// SPDX-License-Identifier: Apache-2.0
// How a row of positions is cut over the ranks of the sequence axis. A row is padded to 2 * ranks equal
// chunks, and rank r holds chunks r and 2 * ranks - 1 - r: under a causal mask every rank then has the same
// work, since an early chunk sees little and its late partner sees the rest. A rank keeps the tokens of its
// rows by half: its first chunk of all rows, then its second chunk of all rows, so that each half is one
// narrow() of a tensor of tokens. Arithmetic only. One rank holds its rows whole, in one half, unpadded.
#pragma once
#include <cstdint>

namespace tessera {

struct SequenceCut {
  int64_t length = 0;  // positions of a whole row
  int ranks = 1, rank = 0;

  bool whole() const { return ranks == 1; }
  int halves() const { return whole() ? 1 : 2; }
  int chunks() const { return halves() * ranks; }
  int64_t chunk_length() const { return (length + chunks() - 1) / chunks(); }
  int64_t local_length() const { return halves() * chunk_length(); }   // of a row, on each rank
  int64_t padded_length() const { return chunks() * chunk_length(); }  // no position is as large
  int chunk_of(int of_rank, int half) const { return half == 0 ? of_rank : chunks() - 1 - of_rank; }
  int64_t first_position(int of_rank, int half) const { return chunk_of(of_rank, half) * chunk_length(); }
  // The position of this rank's token `index`, of a batch of `rows` rows; at or above `length` in padding.
  int64_t position(int64_t index, int64_t rows) const;
  int64_t row(int64_t index, int64_t rows) const;  // the row it is in

  bool operator==(const SequenceCut&) const = default;
};

// Throws on a length below 1 or a rank that is not one of the ranks.
SequenceCut make_sequence_cut(int64_t length, int ranks, int rank);

}  // namespace tessera
