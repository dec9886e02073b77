// SPDX-License-Identifier: Apache-2.0
#include "framework/mesh/sequence_cut.h"

#include "framework/base/check.h"

namespace tessera {

int64_t SequenceCut::position(int64_t index, int64_t rows) const {
  const int64_t of_half = rows * chunk_length();
  return first_position(rank, static_cast<int>(index / of_half)) + index % of_half % chunk_length();
}

int64_t SequenceCut::row(int64_t index, int64_t rows) const {
  return index % (rows * chunk_length()) / chunk_length();
}

SequenceCut make_sequence_cut(int64_t length, int ranks, int rank) {
  CHECK(length >= 1 && ranks >= 1 && rank >= 0 && rank < ranks,
        "rows of {} positions cannot be cut for rank {} of {} ranks of the sequence axis", length, rank,
        ranks);
  return {.length = length, .ranks = ranks, .rank = rank};
}

}  // namespace tessera
