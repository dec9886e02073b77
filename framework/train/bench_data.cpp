// SPDX-License-Identifier: Apache-2.0
#include "framework/train/bench_data.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "framework/train/data_feed.h"

namespace tessera {

DataBenchmark bench_data(const RunConfig& config, int warmup, int steps) {
  using Clock = std::chrono::steady_clock;
  const auto seconds_since = [](Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  DataBenchmark result;
  const auto opened = Clock::now();
  DataFeed data(config, 0);
  result.open_seconds = seconds_since(opened);
  std::vector<double> seconds;
  for (int step = 0; step < warmup + steps; ++step) {
    const auto start = Clock::now();
    const DataFeed::GlobalBatch batch = data.next();
    if (step >= warmup) seconds.push_back(seconds_since(start));
    result.tokens = 0;
    for (const HostBatch& part : batch.microbatches) result.tokens += part.rows * part.length;
  }
  const auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
  std::nth_element(seconds.begin(), middle, seconds.end());
  result.read_seconds = *middle;
  return result;
}

}  // namespace tessera
