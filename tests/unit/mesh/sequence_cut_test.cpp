// SPDX-License-Identifier: Apache-2.0
#include "framework/mesh/sequence_cut.h"

#include <gtest/gtest.h>

#include <set>

#include "framework/base/check.h"

namespace tessera {
namespace {

TEST(SequenceCut, covers_every_position_of_every_row_once) {
  for (const int ranks : {1, 2, 3, 4, 7})
    for (const int64_t length : {1, 2, 7, 13, 64, 1003})
      for (const int64_t rows : {1, 3}) {
        std::set<std::pair<int64_t, int64_t>> places;
        for (int rank = 0; rank < ranks; ++rank) {
          const SequenceCut cut = make_sequence_cut(length, ranks, rank);
          for (int64_t i = 0; i < rows * cut.local_length(); ++i)
            EXPECT_TRUE(places.insert({cut.row(i, rows), cut.position(i, rows)}).second);
          EXPECT_EQ(cut.local_length() * ranks, cut.padded_length());
          EXPECT_LT(cut.padded_length() - length, cut.chunks());
        }
        const int64_t padded = make_sequence_cut(length, ranks, 0).padded_length();
        EXPECT_EQ(static_cast<int64_t>(places.size()), rows * padded);
        EXPECT_EQ(*places.rbegin(), (std::pair{rows - 1, padded - 1}));
      }
}

TEST(SequenceCut, one_rank_holds_its_rows_whole) {
  const SequenceCut cut = make_sequence_cut(13, 1, 0);
  EXPECT_TRUE(cut.whole());
  EXPECT_EQ(cut.padded_length(), 13);
  for (int64_t i = 0; i < 26; ++i) {
    EXPECT_EQ(cut.row(i, 2), i / 13);
    EXPECT_EQ(cut.position(i, 2), i % 13);
  }
}

// 13 positions on 3 ranks: chunks of 3, 18 in all.
TEST(SequenceCut, pairs_early_chunks_with_late_ones) {
  const SequenceCut cut = make_sequence_cut(13, 3, 1);
  EXPECT_EQ(cut.chunk_length(), 3);
  EXPECT_EQ(cut.first_position(1, 0), 3);
  EXPECT_EQ(cut.first_position(1, 1), 12);
  // Two rows: first chunks of both, then second chunks.
  const int64_t positions[] = {3, 4, 5, 3, 4, 5, 12, 13, 14, 12, 13, 14};
  for (int64_t i = 0; i < 12; ++i) {
    EXPECT_EQ(cut.position(i, 2), positions[i]);
    EXPECT_EQ(cut.row(i, 2), i / 3 % 2);
  }
}

TEST(SequenceCut, balances_causal_work) {
  for (const int ranks : {2, 3, 8}) {
    std::set<int64_t> work;
    for (int rank = 0; rank < ranks; ++rank) {
      const SequenceCut cut = make_sequence_cut(int64_t{2} * ranks * 5, ranks, rank);
      int64_t pairs = 0;
      for (int64_t i = 0; i < cut.local_length(); ++i) pairs += cut.position(i, 1) + 1;
      work.insert(pairs);
    }
    EXPECT_EQ(work.size(), 1u);
  }
}

TEST(SequenceCut, refuses_what_is_no_cut) {
  EXPECT_THROW(make_sequence_cut(0, 2, 0), Error);
  EXPECT_THROW(make_sequence_cut(5, 0, 0), Error);
  EXPECT_THROW(make_sequence_cut(5, 2, 2), Error);
  EXPECT_THROW(make_sequence_cut(5, 2, -1), Error);
}

}  // namespace
}  // namespace tessera
