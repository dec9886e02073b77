// SPDX-License-Identifier: Apache-2.0
#include "tests/support/batch.h"

#include "framework/ops/memory.h"

namespace tessera::test {
namespace {

struct HostBatch {
  std::vector<int32_t> tokens, targets, positions, document_start;
  std::vector<float> weights;
  std::vector<int64_t> row_ids, token_index;
};

// Appends one document that begins at `start` of its row.
void append_document(HostBatch& host, std::span<const int32_t> row, int64_t start, int64_t length) {
  for (int64_t i = start; i < start + length; ++i) {
    const bool last = i + 1 == start + length;
    host.tokens.push_back(row[static_cast<size_t>(i)]);
    host.targets.push_back(last ? -1 : row[static_cast<size_t>(i + 1)]);
    host.weights.push_back(last ? 0.0f : 1.0f);
    host.positions.push_back(static_cast<int32_t>(i - start));
    host.document_start.push_back(static_cast<int32_t>(start));
  }
}

template <class T>
Tensor upload(Backend& backend, const std::vector<T>& values) {
  return from_host<T>(backend, values, {static_cast<int64_t>(values.size())});
}

Batch finish(Backend& backend, const HostBatch& host, int64_t rows, int64_t length) {
  Batch batch{.rows = rows,
              .length = length,
              .tokens = upload(backend, host.tokens),
              .targets = upload(backend, host.targets),
              .weights = upload(backend, host.weights),
              .positions = upload(backend, host.positions),
              .document_start = upload(backend, host.document_start),
              .row_ids = upload(backend, host.row_ids),
              .token_index = upload(backend, host.token_index),
              .host_document_start = host.document_start};
  batch.hidden_positions = batch.positions;
  for (const float weight : host.weights) {
    batch.weight_sum += static_cast<double>(weight);
    batch.trained.value += weight > 0 ? 1 : 0;
  }
  return batch;
}

}  // namespace

Batch make_batch(Backend& backend, const BatchSpec& spec) {
  const auto length = static_cast<int64_t>(spec.rows.at(0).size());
  HostBatch host;
  for (size_t r = 0; r < spec.rows.size(); ++r) {
    CHECK(static_cast<int64_t>(spec.rows[r].size()) == length, "row {} has another length", r);
    int64_t start = 0;
    for (const int64_t count : spec.documents.empty() ? std::vector{length} : spec.documents.at(r)) {
      append_document(host, spec.rows[r], start, count);
      start += count;
    }
    CHECK(start == length, "the documents of row {} have {} tokens of {}", r, start, length);
    const int64_t id = spec.row_ids.empty() ? static_cast<int64_t>(r) : spec.row_ids.at(r);
    host.row_ids.push_back(id);
    for (int64_t i = 0; i < length; ++i) host.token_index.push_back(id * length + i);
  }
  if (!spec.weights.empty()) host.weights = spec.weights;
  return finish(backend, host, static_cast<int64_t>(spec.rows.size()), length);
}

std::vector<int32_t> some_tokens(int64_t count, int64_t vocab, uint64_t seed) {
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < count; ++i)
    tokens.push_back(static_cast<int32_t>(philox(RandomKey{seed}, static_cast<uint64_t>(i))[0] %
                                          static_cast<uint64_t>(vocab)));
  return tokens;
}

Batch make_decode_batch(Backend& backend, const std::vector<int32_t>& tokens, int64_t before) {
  HostBatch host;
  const auto count = static_cast<int64_t>(tokens.size());
  append_document(host, tokens, 0, count);
  for (int32_t& position : host.positions) position += static_cast<int32_t>(before);
  host.row_ids = {0};
  for (const int32_t position : host.positions) host.token_index.push_back(position);
  return finish(backend, host, 1, count);
}

}  // namespace tessera::test
