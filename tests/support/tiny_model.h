// SPDX-License-Identifier: Apache-2.0
// A whole small model on one rank, run unit by unit as an executor would, with every tensor in reach of a
// test.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "framework/config/run_config.h"
#include "framework/nn/model.h"
#include "framework/parallel/data/flat_buffers.h"

namespace tessera::test {

// Odd on purpose: 3 heads of 6 columns, hidden 15, vocabulary 11, 2 layers, 7 positions. The gpt form has 3
// key heads, the llama form one.
RunConfig tiny_gpt();
RunConfig tiny_llama();

// Observes nothing.
class SilentSink final : public MetricSink {
 public:
  void add(std::string_view, double) override {}
};

struct TinyModelOptions {
  DType compute = DType::F64;
  Recompute recompute = {};
  uint64_t seed = 17;  // of the initial weights
  uint64_t dropout_seed = 18;
  int64_t sequence_length = 7;
  double spread = 0.3;  // standard deviation added to every parameter, so that none is 0 or 1 throughout
  std::function<void(ParameterSpec&)> change = {};  // of the declared table, before it is used
};

using NamedValues = std::map<std::string, std::vector<double>>;

class TinyModel {
 public:
  TinyModel(Backend& backend, const RunConfig& config, const TinyModelOptions& options = {});

  // Forward of all units; returns the head's output. In Train the saved activations stay for backward().
  Tensor forward(const Batch& batch, Mode mode = Mode::Train, KeyValueCache* cache = nullptr);
  // Adds the gradients of loss_scale * loss, as B or as I then W; returns the gradients of each unit's input,
  // from the head down to the first block.
  std::vector<std::vector<double>> backward(const Batch& batch, bool split = false);

  double loss() const;  // the weighted sum of losses of the last forward
  int64_t saved_bytes(int unit) const { return saved_.at(static_cast<size_t>(unit)).bytes(); }
  bool saved_empty() const;
  NamedValues gradients() const;  // by logical name
  KeyValueCache make_cache(int64_t capacity) const;
  ParameterStore& store() { return store_; }
  FlatBuffers& buffers() { return buffers_; }
  StepInfo& step() { return step_; }

 private:
  Context context(const Batch& batch, Mode mode);

  Backend& backend_;
  ModelDefinition definition_;
  DType compute_;
  ParameterStore store_;
  FlatBuffers buffers_;
  Constants constants_;
  std::vector<std::unique_ptr<Module>> units_;
  std::vector<Saved> saved_;
  StepInfo step_;
  Tensor loss_total_;
  SilentSink silent_;
};

}  // namespace tessera::test
