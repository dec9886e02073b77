// SPDX-License-Identifier: Apache-2.0
// Continues a sequence of tokens with a model on one rank, keeping keys and values of earlier positions.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "framework/config/run_config.h"
#include "framework/nn/model.h"
#include "framework/parallel/data/flat_buffers.h"
#include "framework/train/sampler.h"

namespace tessera {

class Generator {
 public:
  // Allocates values only, uninitialised: load them into store() before generate().
  Generator(const RunConfig& config, const ModelDefinition& model, Backend& backend);

  ParameterStore& store() { return store_; }
  // Positions the model was made for: a longer text goes on from its latest half.
  int64_t context_length() const { return capacity_; }

  // Draws up to `count` tokens after `prompt` (at least one token) and hands over each; stops early when
  // `on_token` returns false.
  void generate(std::vector<int32_t> prompt, int64_t count, const SamplingOptions& options,
                const std::function<bool(int32_t)>& on_token);

 private:
  std::vector<float> next_logits(std::span<const int32_t> tokens);  // appends them to the cache

  const ModelDefinition& model_;
  Backend& backend_;
  int64_t capacity_;
  ParameterStore store_;
  FlatBuffers buffers_;
  std::vector<std::unique_ptr<Module>> units_;
  KeyValueCache cache_;
};

}  // namespace tessera
