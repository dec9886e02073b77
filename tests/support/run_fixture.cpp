// SPDX-License-Identifier: Apache-2.0
#include "tests/support/run_fixture.h"

#include <gtest/gtest.h>

#include <cmath>
#include <mutex>

#include "framework/backends/cpu/cpu_backend.h"
#include "framework/comm/in_process/thread_ranks.h"
#include "framework/config/load.h"
#include "framework/config/resolve.h"
#include "framework/ops/memory.h"
#include "framework/optim/gradient_norm.h"
#include "framework/train/logical.h"
#include "framework/train/replicas.h"
#include "models/registry.h"

namespace tessera::test {

RunConfig fixture_config(const std::vector<std::string>& set) {
  RunConfig config = load_config({.file = std::string(TESSERA_SOURCE_DIR) + "/tests/fixtures/parity.toml",
                                  .overrides = set,
                                  .environment = {}})
                         .config;
  resolve_parallel(config, mesh_ranks(config));
  return config;
}

namespace {

std::map<std::string, std::vector<double>> masters(Rank& rank) {
  std::map<std::string, std::vector<double>> values;
  for (const ParameterSpec& spec : rank.model().parameters)
    values[spec.name] = to_host_double(rank.backend(), logical_tensor(rank, spec, TensorKind::Master));
  return values;
}

void run_rank(const RunConfig& config, const RunOptions& options, Communicator& world, Backend& backend,
              RunRecord& record) {
  const ModelDefinition model = define_model(config);
  Rank rank(config, model, world, backend);
  rank.initialise_parameters();
  if (options.prepare) options.prepare(rank);
  record.initial = masters(rank);
  DataFeed data(config, rank.data_rank());
  for (int step = 1; step <= options.steps; ++step) {
    DataFeed::GlobalBatch global = data.next();
    if (options.edit) options.edit(step, global);
    int64_t trained[1] = {0};
    std::vector<Batch> batches;
    for (HostBatch& host : global.microbatches) {
      host.count_weights();
      if (rank.counts_rows()) trained[0] += host.trained.value;
      batches.push_back(rank.upload(host));
    }
    world.all_reduce_host(std::span(trained), Reduce::Sum);
    std::optional<TensorWatch> watch;
    if (options.watch) watch.emplace(rank, true);
    const StepResult result = rank.step().run(batches, static_cast<double>(trained[0]), Steps(step),
                                              learning_rate(learning_rate_options(config), Steps(step - 1)),
                                              watch ? &*watch : nullptr);
    if (watch) record.figures.push_back(watch->finish(result.scale));
    record.losses.push_back(result.loss);
    record.norms.push_back(result.grad_norm);
    record.applied_norms.push_back(result.grad_norm * clip_factor(result.grad_norm, config.train.grad_clip));
    record.tokens.push_back(trained[0]);
    record.source_loss_sums.push_back(result.source_loss_sums);
    if (step == 1)
      for (const ParameterSpec& spec : rank.model().parameters) {
        if (!is_trained(spec)) continue;
        std::vector<double> values =
            to_host_double(backend, logical_tensor(rank, spec, TensorKind::Gradient));
        for (double& value : values) value /= result.scale;
        record.gradients[spec.name] = std::move(values);
      }
    check_replicas(rank, Steps(step));
  }
  if (options.finish) options.finish(rank);
  record.weights = masters(rank);
}

}  // namespace

RunRecord run_fixture(const RunConfig& config, const RunOptions& options) {
  const int ranks = static_cast<int>(mesh_ranks(config));
  std::vector<RunRecord> records(static_cast<size_t>(ranks));
  run_thread_ranks(ranks, {.patience = 60}, [&](InProcessWorld& world, int rank) {
    const int threads = static_cast<int>(config.run.threads_per_rank.value_or(1));
    const auto backend = options.make_backend ? options.make_backend(threads)
                                              : make_cpu_backend(threads, {.poison = config.debug.poison});
    const auto communicator = world.attach(rank, *backend);
    run_rank(config, options, *communicator, *backend, records[static_cast<size_t>(rank)]);
  });
  for (const RunRecord& record : records) {
    EXPECT_EQ(record.losses, records[0].losses) << "ranks report different losses";
    EXPECT_EQ(record.norms, records[0].norms) << "ranks report different norms";
    EXPECT_EQ(record.weights, records[0].weights) << "ranks ended with different weights";
  }
  return records[0];
}

namespace {
double norm(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum);
}
}  // namespace

void expect_close_gradients(const RunRecord& run, const RunRecord& reference, double tolerance,
                            const std::string& what) {
  ASSERT_EQ(run.gradients.size(), reference.gradients.size()) << what;
  double global = 0;
  for (const auto& [name, values] : reference.gradients) global += norm(values) * norm(values);
  global = std::sqrt(global);
  ASSERT_GT(global, 0) << what;
  for (const auto& [name, b] : reference.gradients) {
    const std::vector<double>& a = run.gradients.at(name);
    ASSERT_EQ(a.size(), b.size()) << what << ": " << name;
    std::vector<double> difference(a.size());
    for (size_t i = 0; i < a.size(); ++i) difference[i] = a[i] - b[i];
    const double bound = tolerance * std::max(norm(b), 1e-3 * global);
    EXPECT_LE(norm(difference), bound) << what << ": gradient of " << name << " (norm " << norm(b) << ")";
  }
}

void expect_same_weights(const RunRecord& run, const RunRecord& reference, const std::string& what) {
  for (const auto& [name, values] : reference.weights)
    EXPECT_EQ(run.weights.at(name), values) << what << ": " << name;
}

}  // namespace tessera::test
