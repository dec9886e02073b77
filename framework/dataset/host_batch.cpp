// SPDX-License-Identifier: Apache-2.0
#include "framework/dataset/host_batch.h"

#include <algorithm>
#include <numeric>

#include "framework/base/check.h"

namespace tessera {
namespace {

template <class T>
Tensor uploaded(const std::vector<T>& values, Backend& backend) {
  const auto count = static_cast<int64_t>(values.size());
  const int64_t bytes = count * static_cast<int64_t>(sizeof(T));
  Tensor tensor(backend.allocator().allocate(bytes), dtype_of<T>(), {count});
  backend.upload(std::as_bytes(std::span(values)), tensor);
  return tensor;
}

// The values of one of equal parts; padding repeats the last value, which is one that kernels may see.
template <class T>
std::vector<T> part_of(const std::vector<T>& values, HiddenPart hidden) {
  const auto parts = static_cast<size_t>(hidden.parts), each = (values.size() + parts - 1) / parts;
  std::vector<T> part(each);
  for (size_t i = 0; i < each; ++i)
    part[i] = values[std::min(static_cast<size_t>(hidden.part) * each + i, values.size() - 1)];
  return part;
}

}  // namespace

HostBatch::HostBatch(int64_t first_row, int64_t row_count, int64_t row_length)
    : rows(row_count), length(row_length) {
  CHECK(first_row >= 0 && rows >= 0 && length >= 1, "a batch of {} rows of {} from row {}", rows, length,
        first_row);
  const auto n = static_cast<size_t>(rows * length);
  tokens.assign(n, 0);
  targets.assign(n, -1);
  weights.assign(n, 0.0f);
  document_ids.assign(n, -1);
  sources.assign(n, 0);
  positions.resize(n);
  row_ids.resize(static_cast<size_t>(rows));
  token_index.resize(n);
  std::iota(row_ids.begin(), row_ids.end(), first_row);
  std::iota(token_index.begin(), token_index.end(), first_row * length);
  for (int64_t i = 0; i < rows; ++i) {
    const auto row = positions.begin() + i * length;
    std::iota(row, row + length, 0);
  }
  document_start = positions;
}

RowView HostBatch::row(int64_t number) {
  CHECK(number >= 0 && number < rows && cut.whole(), "row {} of {}{}", number, rows,
        cut.whole() ? "" : " that are cut over ranks");
  const auto at = static_cast<size_t>(number * length), size = static_cast<size_t>(length);
  const auto part = [&](auto& array) { return std::span(array).subspan(at, size); };
  return {.tokens = part(tokens),
          .targets = part(targets),
          .positions = part(positions),
          .document_start = part(document_start),
          .weights = part(weights),
          .document_ids = part(document_ids)};
}

void HostBatch::set_source(int64_t row, int64_t source) {
  CHECK(source >= 0 && source < source_count, "source {} of {}", source, source_count);
  std::fill_n(sources.begin() + row * length, length, static_cast<int32_t>(source));
}

std::vector<int64_t> HostBatch::trained_by_source() const {
  std::vector<int64_t> counts(static_cast<size_t>(source_count), 0);
  for (size_t i = 0; i < weights.size(); ++i) counts[static_cast<size_t>(sources[i])] += weights[i] > 0;
  return counts;
}

void HostBatch::count_weights() {
  weight_sum = 0;
  trained = Tokens(0);
  for (const float weight : weights) {
    weight_sum += static_cast<double>(weight);
    trained.value += weight > 0;
  }
}

Batch upload(const HostBatch& host, Backend& backend, HiddenPart hidden) {
  Batch batch;
  batch.rows = host.rows;
  batch.length = host.length;
  batch.tokens = uploaded(host.tokens, backend);
  batch.targets = uploaded(host.targets, backend);
  batch.weights = uploaded(host.weights, backend);
  batch.positions = uploaded(host.positions, backend);
  batch.document_start = uploaded(host.document_start, backend);
  batch.row_ids = uploaded(host.row_ids, backend);
  const bool whole = hidden.parts == 1;
  batch.hidden_positions = whole ? batch.positions : uploaded(part_of(host.positions, hidden), backend);
  batch.token_index =
      whole ? uploaded(host.token_index, backend) : uploaded(part_of(host.token_index, hidden), backend);
  if (host.source_count > 1) batch.sources = uploaded(host.sources, backend);
  batch.weight_sum = host.weight_sum;
  batch.trained = host.trained;
  batch.host_document_start = host.document_start;
  batch.cut = host.cut;
  if (!host.cut.whole()) batch.row_document_start = uploaded(host.row_document_start, backend);
  batch.host_row_document_start = host.row_document_start;
  return batch;
}

}  // namespace tessera
