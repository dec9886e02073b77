// SPDX-License-Identifier: Apache-2.0
// What a step says of one logical tensor (logging.per_tensor).
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

class EventSummary;

struct ValueHistogram {
  std::vector<int64_t> counts;         // of HistogramBuckets; empty: not counted
  double scale = 1;                    // that the counted values were multiplied with
  double sum = 0, sum_of_squares = 0;  // of the values themselves
};

struct TensorFigures {
  std::string name;
  double weight_norm = 0;    // of the masters, after the update
  double gradient_norm = 0;  // before clipping, unscaled
  double update_ratio = 0;   // norm of the update / weight_norm
  ValueHistogram weights, gradients;
};

// Adds the buckets that hold something, and nothing when there are no counts.
void add_histogram(EventSummary& summary, const std::string& tag, const ValueHistogram& histogram);

}  // namespace tessera
