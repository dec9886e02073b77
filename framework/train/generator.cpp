// SPDX-License-Identifier: Apache-2.0
#include "framework/train/generator.h"

#include "framework/ops/memory.h"
#include "framework/train/metrics.h"
#include "framework/train/rank.h"

namespace tessera {
namespace {

Batch decode_batch(Backend& backend, std::span<const int32_t> tokens, int64_t first_position) {
  const auto n = static_cast<int64_t>(tokens.size());
  std::vector<int32_t> positions(tokens.size()), starts(tokens.size(), 0);
  std::vector<int64_t> index(tokens.size()), row{0};
  for (size_t i = 0; i < tokens.size(); ++i) {
    index[i] = first_position + static_cast<int64_t>(i);
    positions[i] = static_cast<int32_t>(index[i]);
  }
  Batch batch{.rows = 1, .length = n};
  batch.tokens = from_host<int32_t>(backend, tokens, {n});
  batch.targets = zeros(backend, DType::I32, {n});
  batch.weights = zeros(backend, DType::F32, {n});
  batch.positions = from_host<int32_t>(backend, positions, {n});
  batch.document_start = from_host<int32_t>(backend, starts, {n});
  batch.row_ids = from_host<int64_t>(backend, row, {1});
  batch.hidden_positions = batch.positions;
  batch.token_index = from_host<int64_t>(backend, index, {n});
  batch.host_document_start = starts;
  return batch;
}

// Learned positions end; others are limited by the length that the model was trained at.
int64_t capacity_of(const RunConfig& config) {
  return config.model.position == ModelSection::Position::Learned
             ? config.model.max_position_embeddings
             : std::max(config.train.seq_length, config.model.max_position_embeddings);
}

}  // namespace

Generator::Generator(const RunConfig& config, const ModelDefinition& model, Backend& backend)
    : model_(model),
      backend_(backend),
      capacity_(capacity_of(config)),
      store_(model.parameters, make_layout({}).dense, 0),
      buffers_(store_, backend, {.compute = compute_type(config.precision), .gradients = false}) {
  const DType compute = compute_type(config.precision);
  for (int unit = 0; unit < model.unit_count(); ++unit)
    units_.push_back(model.build_unit(
        unit, store_,
        {.backend = backend, .compute = compute, .sequence_length = capacity_, .seed = 0, .recompute = {}}));
  for (int block = 0; block + 2 < model.unit_count(); ++block)
    cache_.blocks.push_back({.k = empty(backend, compute, {capacity_, model.kv_width}),
                             .v = empty(backend, compute, {capacity_, model.kv_width})});
}

std::vector<float> Generator::next_logits(std::span<const int32_t> tokens) {
  const Batch batch = decode_batch(backend_, tokens, cache_.length);
  const StepInfo step{.step_number = zeros(backend_, DType::I64, {1}),
                      .loss_scale = zeros(backend_, DType::F64, {1})};
  MetricSums unused;
  Context context{.backend = backend_,
                  .batch = batch,
                  .step = step,
                  .metrics = unused,
                  .mode = Mode::Decode,
                  .cache = &cache_};
  Tensor x;
  for (const auto& unit : units_) {
    Saved saved;
    x = unit->forward(x, saved, context);
  }
  cache_.length += static_cast<int64_t>(tokens.size());
  return to_host<float>(backend_,
                        converted(backend_, cloned(backend_, x.narrow(x.size(0) - 1, 1)), DType::F32));
}

void Generator::generate(std::vector<int32_t> tokens, int64_t count, const SamplingOptions& options,
                         const std::function<bool(int32_t)>& on_token) {
  CHECK_AS(ExitCode::Usage, !tokens.empty(), "generation needs a prompt of at least one token");
  for (const int32_t token : tokens)
    CHECK_AS(ExitCode::Data, token >= 0 && token < model_.vocab_size,
             "token {} is outside the model's vocabulary of {}", token, model_.vocab_size);
  std::span<const int32_t> fresh(tokens);
  cache_.length = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (cache_.length + static_cast<int64_t>(fresh.size()) > capacity_) {
      cache_.length = 0;
      fresh = std::span<const int32_t>(tokens).last(static_cast<size_t>(std::max<int64_t>(1, capacity_ / 2)));
    }
    const int32_t token = sample(next_logits(fresh), options, static_cast<int64_t>(tokens.size()));
    if (!on_token(token)) return;
    tokens.push_back(token);
    fresh = std::span<const int32_t>(tokens).last(1);
  }
}

}  // namespace tessera
