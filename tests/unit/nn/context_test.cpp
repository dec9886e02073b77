// SPDX-License-Identifier: Apache-2.0
#include "framework/nn/context.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

Batch of(int64_t rows, int64_t length, std::vector<int32_t> document_start) {
  Batch batch;
  batch.rows = rows;
  batch.length = length;
  batch.host_document_start = std::move(document_start);
  return batch;
}

// Counts one pair at a time.
int64_t counted(const Batch& batch, int64_t window, int64_t first) {
  int64_t pairs = 0;
  for (int64_t i = 0; i < batch.rows * batch.length; ++i) {
    const int64_t query = first + i % batch.length;
    for (int64_t key = 0; key <= query; ++key)
      if (key >= batch.host_document_start[static_cast<size_t>(i)] && (window == 0 || query - key < window))
        ++pairs;
  }
  return pairs;
}

TEST(Batch, VisiblePairsAreThoseOfTheMask) {
  // Documents of 1, 4 and 2 tokens; then one of 7. A padded position starts behind itself: it sees nothing.
  Batch batch = of(2, 7, {0, 1, 1, 1, 1, 5, 5, 0, 0, 0, 0, 0, 0, 7});
  for (const int64_t window : {0, 1, 2, 3, 7, 100})
    EXPECT_EQ(batch.visible_pairs(window), counted(batch, window, 0)) << window;
  const Batch later = of(1, 2, {0, 3});
  for (const int64_t window : {0, 1, 4}) EXPECT_EQ(later.visible_pairs(window, 5), counted(later, window, 5));
  batch.host_document_start.pop_back();
  EXPECT_THROW(batch.visible_pairs(0), Error);
}

}  // namespace
}  // namespace tessera
