// SPDX-License-Identifier: Apache-2.0
// What reading costs: opening the corpora of a config, and the batches of its first data rank.
#pragma once
#include <cstdint>

#include "framework/config/run_config.h"

namespace tessera {

struct DataBenchmark {
  double open_seconds = 0;  // tokenizer and all sources, until the first batch can be asked for
  double read_seconds = 0;  // of one step's micro-batches, median
  int64_t tokens = 0;       // positions of one step's micro-batches
};

// `config` is resolved. Reads `warmup` steps, then `steps` timed ones.
DataBenchmark bench_data(const RunConfig& config, int warmup, int steps);

}  // namespace tessera
