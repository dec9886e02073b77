// SPDX-License-Identifier: Apache-2.0
#include "framework/dataset/host_batch.h"

#include <gtest/gtest.h>

#include <numeric>

#include "framework/backends/cpu/cpu_backend.h"
#include "framework/ops/memory.h"

namespace tessera {
namespace {

TEST(HostBatch, UploadsEveryArray) {
  HostBatch host(7, 3, 5);
  std::iota(host.tokens.begin(), host.tokens.end(), 100);
  std::iota(host.targets.begin(), host.targets.end(), 200);
  host.weights[4] = 0.25f;
  host.weights[14] = 1;
  host.count_weights();
  EXPECT_EQ(host.weight_sum, 1.25);
  EXPECT_EQ(host.trained, Tokens(2));

  const auto backend = make_cpu_backend(1);
  const Batch batch = upload(host, *backend);
  EXPECT_EQ(batch.rows, 3);
  EXPECT_EQ(batch.length, 5);
  EXPECT_EQ(batch.weight_sum, 1.25);
  EXPECT_EQ(batch.trained, Tokens(2));
  EXPECT_EQ(to_host<int32_t>(*backend, batch.tokens), host.tokens);
  EXPECT_EQ(to_host<int32_t>(*backend, batch.targets), host.targets);
  EXPECT_EQ(to_host<float>(*backend, batch.weights), host.weights);
  EXPECT_EQ(to_host<int32_t>(*backend, batch.positions),
            (std::vector<int32_t>{0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1, 2, 3, 4}));
  EXPECT_EQ(to_host<int32_t>(*backend, batch.document_start), host.document_start);
  EXPECT_EQ(batch.host_document_start, host.document_start);
  EXPECT_EQ(to_host<int64_t>(*backend, batch.row_ids), (std::vector<int64_t>{7, 8, 9}));
  std::vector<int64_t> index(15);
  std::iota(index.begin(), index.end(), 35);
  EXPECT_EQ(to_host<int64_t>(*backend, batch.token_index), index);
}

}  // namespace
}  // namespace tessera
