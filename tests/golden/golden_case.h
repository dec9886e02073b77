// SPDX-License-Identifier: Apache-2.0
// A golden case as scripts/make_golden.py wrote it.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "framework/config/run_config.h"
#include "tests/support/batch.h"

namespace tessera::test {

struct GoldenTensor {
  std::vector<int64_t> shape;
  bool decays = false;
  std::vector<float> initial;
  std::vector<double> gradient, final;  // of the first step; after all steps
};

struct GoldenCase {
  RunConfig config;  // read from TOML with the [model] keys of the case
  std::vector<BatchSpec> batches;
  std::vector<double> losses, gradient_norms, learning_rates;
  double beta1, beta2, epsilon, weight_decay, clip;
  std::map<std::string, GoldenTensor> tensors;
};

std::vector<std::string> golden_names();
GoldenCase read_golden(const std::string& name);

}  // namespace tessera::test
