// SPDX-License-Identifier: Apache-2.0
#include "framework/train/bench_step.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "framework/train/matmul_peak.h"
#include "framework/train/rank.h"

namespace tessera {
namespace {

// One document a row, tokens drawn at random, every position trained.
HostBatch random_batch(int64_t rows, int64_t length, int64_t vocab, int64_t first_row) {
  const RandomKey key = random_key(1, "bench tokens");
  HostBatch batch(first_row, rows, length);
  for (size_t i = 0; i < batch.tokens.size(); ++i) {
    const auto draw = philox(key, static_cast<uint64_t>(batch.token_index[i]));
    batch.tokens[i] = static_cast<int32_t>(draw[0] % static_cast<uint64_t>(vocab));
    batch.targets[i] = static_cast<int32_t>(draw[1] % static_cast<uint64_t>(vocab));
    batch.document_start[i] = 0;
    batch.weights[i] = 1;
  }
  batch.count_weights();
  return batch;
}

}  // namespace

StepBenchmark bench_step(const RunConfig& config, const ModelDefinition& model, Communicator& world,
                         Backend& backend, int warmup, int steps) {
  StepBenchmark result;
  double peak[1] = {measure_matmul_peak(backend, compute_type(config.precision))};
  world.all_reduce_host(std::span(peak), Reduce::Sum);
  result.matmul_peak = peak[0];
  backend.allocator().reset_peak();

  Rank rank(config, model, world, backend);
  rank.initialise_parameters();
  const int64_t micro = config.train.micro_batch_size, length = config.train.seq_length;
  std::vector<Batch> batches;
  for (int64_t m = 0; m < config.train.gradient_accumulation_steps; ++m)
    batches.push_back(rank.upload(
        random_batch(micro, length, model.vocab_size, (m * config.parallel.dp + rank.data_rank()) * micro)));
  const double tokens =
      static_cast<double>(config.train.gradient_accumulation_steps * config.parallel.dp * micro * length);

  std::vector<double> seconds;
  int64_t sent[1] = {0};
  world.barrier();
  // From the end of one step to the end of the next: what a step leaves under way counts in the one that
  // waits.
  auto last = std::chrono::steady_clock::now();
  for (int i = 0; i < warmup + steps; ++i) {
    backend.flops() = {};
    const int64_t sent_before = rank.sent_bytes();
    rank.step().run(batches, tokens, Steps(i + 1), config.optimizer.lr);
    backend.compute_stream().synchronize();
    const auto end = std::chrono::steady_clock::now();
    const std::chrono::duration<double> elapsed = end - std::exchange(last, end);
    sent[0] = rank.sent_bytes() - sent_before;
    if (i >= warmup) seconds.push_back(elapsed.count());
  }
  std::sort(seconds.begin(), seconds.end());
  double slowest[2] = {seconds[seconds.size() / 2], seconds.front()};
  world.all_reduce_host(std::span(slowest), Reduce::Max);
  double flops[1] = {static_cast<double>(backend.flops().model)};
  world.all_reduce_host(std::span(flops), Reduce::Sum);
  int64_t memory[1] = {backend.allocator().peak_bytes()};
  world.all_reduce_host(std::span(memory), Reduce::Max);
  world.all_reduce_host(std::span(sent), Reduce::Max);

  result.step_seconds = slowest[0];
  result.fastest_step_seconds = slowest[1];
  result.tokens_per_second = tokens / result.step_seconds;
  result.flops_per_token = flops[0] / tokens;
  result.matmul_peak_share = flops[0] / result.step_seconds / result.matmul_peak;
  result.peak_memory_bytes = memory[0];
  result.sent_bytes = sent[0];
  return result;
}

}  // namespace tessera
