// SPDX-License-Identifier: Apache-2.0
#include "framework/nn/context.h"

#include <algorithm>
#include <limits>

namespace tessera {

int64_t visible_pairs(std::span<const int32_t> document_start, int64_t queries, int64_t first_query,
                      const Range& keys, int64_t window) {
  int64_t pairs = 0;
  for (size_t i = 0; i < document_start.size(); ++i) {
    const int64_t position = first_query + static_cast<int64_t>(i) % queries;
    int64_t first = std::max<int64_t>(document_start[i], keys.begin);
    if (window > 0) first = std::max(first, position - window + 1);
    pairs += std::max<int64_t>(0, std::min(position + 1, keys.end) - first);
  }
  return pairs;
}

int64_t Batch::visible_pairs(int64_t window, int64_t first_position) const {
  CHECK(static_cast<int64_t>(host_document_start.size()) == rows * length,
        "a batch of {} x {} positions has {} document starts on the host", rows, length,
        host_document_start.size());
  const Range all{0, std::numeric_limits<int64_t>::max()};
  if (cut.whole()) return tessera::visible_pairs(host_document_start, length, first_position, all, window);
  int64_t pairs = 0;
  const std::span<const int32_t> starts(host_document_start);
  const size_t half_size = starts.size() / 2;
  for (int half = 0; half < cut.halves(); ++half)
    pairs += tessera::visible_pairs(starts.subspan(static_cast<size_t>(half) * half_size, half_size),
                                    cut.chunk_length(), cut.first_position(cut.rank, half), all, window);
  return pairs;
}

}  // namespace tessera
