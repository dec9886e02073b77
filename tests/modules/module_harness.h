// SPDX-License-Identifier: Apache-2.0
// One module with its own parameters in F64: finite differences of the input and of every parameter, the
// halves of the backward against the whole, and that it leaves alone what it does not own.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "framework/backends/cpu/cpu_backend.h"
#include "framework/nn/module.h"
#include "framework/parallel/data/flat_buffers.h"
#include "tests/support/batch.h"
#include "tests/support/tiny_model.h"

namespace tessera::test {

ParameterSpec matrix(const std::string& name, int64_t rows, int64_t columns, const std::string& fused = "");
ParameterSpec vector(const std::string& name, int64_t count, const std::string& fused = "");

class ModuleHarness {
 public:
  explicit ModuleHarness(std::vector<ParameterSpec> specs);

  Backend& backend() { return *backend_; }
  ParameterStore& store() { return *store_; }
  const Weight& weight(const std::string& name) { return store_->weight(name); }
  // Two rows of 7 positions: documents of 1 and 6 tokens, and of 4 and 3.
  const Batch& batch() const { return batch_; }
  Context context();

  // Runs every check. The objective is a fixed random combination of the output, or, for a head, 0.25 times
  // the loss; `width` is of the input, 0 for a module that reads the batch instead.
  void check(const Module& module, int64_t width, bool head = false);

 private:
  double objective(const Module& module, const Tensor& x, bool head);
  NamedValues parameter_gradients();

  std::unique_ptr<Backend> backend_;
  std::unique_ptr<ParameterStore> store_;
  std::unique_ptr<FlatBuffers> buffers_;
  Batch batch_;
  StepInfo step_;
  Tensor loss_total_;
  SilentSink silent_;
};

}  // namespace tessera::test
