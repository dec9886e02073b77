// SPDX-License-Identifier: Apache-2.0
// Whole runs on thread ranks inside one test process, from tests/fixtures/parity.toml with keys changed: the
// real data, ranks, steps and reductions, without folders.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "framework/config/run_config.h"
#include "framework/train/data_feed.h"
#include "framework/train/rank.h"
#include "framework/train/tensor_watch.h"

namespace tessera::test {

// The fixture with `set` applied ("train.micro_batch_size=2"), resolved for its own mesh.
RunConfig fixture_config(const std::vector<std::string>& set);

struct RunRecord {
  std::vector<double> losses, norms, applied_norms;      // of each step
  std::map<std::string, std::vector<double>> initial;    // masters before the first step
  std::map<std::string, std::vector<double>> gradients;  // of step 1, unscaled, as they entered clipping
  std::map<std::string, std::vector<double>> weights;    // masters after the last step
  std::vector<int64_t> tokens;                           // trained, of each step
  std::vector<std::vector<double>> source_loss_sums;     // of each step
  std::vector<std::vector<TensorFigures>> figures;       // of each step; with RunOptions::watch
};

struct RunOptions {
  int steps = 1;
  bool watch = false;  // single tensors, with histograms
  // Called on every rank before the first step; may change parameters.
  std::function<void(Rank&)> prepare = {};
  // Called on every rank after the last step.
  std::function<void(Rank&)> finish = {};
  // Changes a rank's micro-batches of a step (masks, say); must do the same logical thing on every layout.
  std::function<void(int step, DataFeed::GlobalBatch&)> edit = {};
  std::function<std::unique_ptr<Backend>(int threads)> make_backend = {};  // the CPU backend unless given
};
// Runs the config on thread ranks. What rank 0 saw; all ranks' weights are checked to be equal.
RunRecord run_fixture(const RunConfig& config, const RunOptions& options = {});

// ||a - b|| <= tolerance * max(||b||, 1e-3 * global norm of b) for every tensor; names the worst.
void expect_close_gradients(const RunRecord& run, const RunRecord& reference, double tolerance,
                            const std::string& what);
void expect_same_weights(const RunRecord& run, const RunRecord& reference, const std::string& what);

}  // namespace tessera::test
