// SPDX-License-Identifier: Apache-2.0
#include "framework/dataset/sequence_batch.h"

#include <gtest/gtest.h>

#include "framework/backends/cpu/cpu_backend.h"
#include "framework/base/check.h"
#include "framework/ops/memory.h"

namespace tessera {
namespace {

// Rows 4, 5 and 6 of a global batch, the last one padding, with a document that begins at 6.
HostBatch some_batch(int64_t length) {
  HostBatch batch(4, 3, length);
  for (int64_t r = 0; r < 2; ++r) {
    const RowView row = batch.row(r);
    for (size_t i = 0; i < static_cast<size_t>(length); ++i) {
      const int32_t position = static_cast<int32_t>(i), start = position < 6 ? 0 : 6;
      row.tokens[i] = static_cast<int32_t>(100 * r) + position;
      row.targets[i] = row.tokens[i] + 1;
      row.weights[i] = 1.0f + static_cast<float>(i);
      row.positions[i] = position - start;
      row.document_start[i] = start;
      row.document_ids[i] = start;
    }
  }
  batch.count_weights();
  return batch;
}

TEST(SequenceBatch, each_token_keeps_what_belongs_to_it) {
  const HostBatch whole = some_batch(13);
  for (const int ranks : {2, 3, 4, 5}) {
    int64_t found = 0, trained = 0;
    double weight_sum = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      const SequenceCut cut = make_sequence_cut(13, ranks, rank);
      const HostBatch part = cut_batch(whole, cut);
      EXPECT_EQ(part.rows, 3);
      EXPECT_EQ(part.length, cut.local_length());
      EXPECT_EQ(part.row_ids, whole.row_ids);
      weight_sum += part.weight_sum;
      trained += part.trained.value;
      for (int64_t i = 0; i < part.rows * part.length; ++i) {
        const int64_t row = cut.row(i, 3), position = cut.position(i, 3);
        const auto at = static_cast<size_t>(i), from = static_cast<size_t>(row * 13 + position);
        EXPECT_EQ(part.token_index[at], (4 + row) * 13 + position);
        if (position >= 13) {
          EXPECT_EQ(part.tokens[at], 0);
          EXPECT_EQ(part.targets[at], -1);
          EXPECT_EQ(part.weights[at], 0.0f);
          EXPECT_EQ(part.positions[at], 0);
          EXPECT_EQ(part.document_ids[at], -1);
          EXPECT_GT(part.document_start[at], position);
          continue;
        }
        ++found;
        EXPECT_EQ(part.token_index[at], whole.token_index[from]);
        EXPECT_EQ(part.tokens[at], whole.tokens[from]);
        EXPECT_EQ(part.targets[at], whole.targets[from]);
        EXPECT_EQ(part.weights[at], whole.weights[from]);
        EXPECT_EQ(part.positions[at], whole.positions[from]);
        EXPECT_EQ(part.document_start[at], whole.document_start[from]);
        EXPECT_EQ(part.document_ids[at], whole.document_ids[from]);
      }
    }
    EXPECT_EQ(found, 3 * 13);
    EXPECT_EQ(weight_sum, whole.weight_sum);
    EXPECT_EQ(trained, whole.trained.value);
  }
}

TEST(SequenceBatch, pairs_of_all_ranks_are_those_of_whole_rows) {
  const auto backend = make_cpu_backend(1);
  for (const int64_t length : {1, 7, 13, 64})
    for (const int64_t window : {0, 1, 5}) {
      const Batch whole = upload(some_batch(length), *backend);
      for (const int ranks : {2, 3, 4}) {
        int64_t pairs = 0;
        for (int rank = 0; rank < ranks; ++rank)
          pairs += upload(cut_batch(some_batch(length), make_sequence_cut(length, ranks, rank)), *backend)
                       .visible_pairs(window);
        EXPECT_EQ(pairs, whole.visible_pairs(window)) << length << " positions, window " << window;
      }
    }
}

TEST(SequenceBatch, carries_what_whole_rows_see) {
  const auto backend = make_cpu_backend(1);
  const HostBatch whole = some_batch(13);
  const Batch part = upload(cut_batch(whole, make_sequence_cut(13, 3, 2)), *backend);
  EXPECT_EQ(to_host<int32_t>(*backend, part.row_document_start), part.host_row_document_start);
  ASSERT_EQ(part.host_row_document_start.size(), 3u * 18u);
  for (size_t row = 0; row < 3; ++row)
    for (size_t position = 0; position < 18; ++position)
      EXPECT_EQ(part.host_row_document_start[row * 18 + position],
                position < 13 ? whole.document_start[row * 13 + position] : 18);
}

TEST(SequenceBatch, one_rank_keeps_the_batch_as_it_is) {
  const HostBatch whole = some_batch(13), same = cut_batch(whole, make_sequence_cut(13, 1, 0));
  EXPECT_EQ(same.tokens, whole.tokens);
  EXPECT_EQ(same.length, 13);
  EXPECT_TRUE(same.row_document_start.empty());
}

TEST(SequenceBatch, refuses_another_length_and_a_second_cut) {
  EXPECT_THROW(cut_batch(some_batch(13), make_sequence_cut(14, 2, 0)), Error);
  HostBatch part = cut_batch(some_batch(13), make_sequence_cut(13, 2, 0));
  EXPECT_THROW(part.row(0), Error);
  EXPECT_THROW(cut_batch(part, make_sequence_cut(part.length, 2, 0)), Error);
}

}  // namespace
}  // namespace tessera
