// SPDX-License-Identifier: Apache-2.0
#include "framework/train/tensor_figures.h"

#include "framework/ops/reduce.h"
#include "framework/train/event_record.h"

namespace tessera {

void add_histogram(EventSummary& summary, const std::string& tag, const ValueHistogram& histogram) {
  const std::vector<int64_t>& all = histogram.counts;
  std::vector<double> limits, counts;
  double minimum = 0;
  for (size_t bucket = 0; bucket < all.size(); ++bucket) {
    const auto limit = [&](int before) {
      return histogram_limit(static_cast<int>(bucket) - before) / histogram.scale;
    };
    if (all[bucket] == 0) continue;
    if (limits.empty())
      minimum = limit(1);
    else if (limits.back() < limit(1)) {  // one bucket for all the empty ones before
      limits.push_back(limit(1));
      counts.push_back(0);
    }
    limits.push_back(limit(0));
    counts.push_back(static_cast<double>(all[bucket]));
  }
  if (limits.empty()) return;
  summary.add_histogram(tag, {.limits = limits,
                              .counts = counts,
                              .minimum = minimum,
                              .maximum = limits.back(),
                              .sum = histogram.sum,
                              .sum_of_squares = histogram.sum_of_squares});
}

}  // namespace tessera
