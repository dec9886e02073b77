// SPDX-License-Identifier: Apache-2.0
#include "framework/nn/context.h"

#include <algorithm>

namespace tessera {

int64_t Batch::visible_pairs(int64_t window, int64_t first_position) const {
  CHECK(static_cast<int64_t>(host_document_start.size()) == rows * length,
        "a batch of {} x {} positions has {} document starts on the host", rows, length,
        host_document_start.size());
  int64_t pairs = 0;
  for (size_t i = 0; i < host_document_start.size(); ++i) {
    const int64_t position = first_position + static_cast<int64_t>(i) % length;
    const int64_t seen = position - host_document_start[i] + 1;
    pairs += std::max<int64_t>(0, window > 0 ? std::min(seen, window) : seen);
  }
  return pairs;
}

}  // namespace tessera
