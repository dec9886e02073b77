// SPDX-License-Identifier: Apache-2.0
#include "tests/support/tiny_model.h"

#include "framework/ops/memory.h"
#include "models/registry.h"
#include "tests/support/gradient_check.h"

namespace tessera::test {
namespace {

DType gradient_type(DType compute) {
  return statistics_type(compute);
}

ModelDefinition changed(ModelDefinition definition, const std::function<void(ParameterSpec&)>& change) {
  if (change)
    for (ParameterSpec& spec : definition.parameters) change(spec);
  return definition;
}

}  // namespace

RunConfig tiny_gpt() {
  RunConfig config;
  ModelSection& model = config.model;
  model.architecture = "gpt";
  model.vocab_size = 11;
  model.hidden_size = 15;
  model.intermediate_size = 14;
  model.num_hidden_layers = 2;
  model.num_attention_heads = model.num_key_value_heads = 3;
  model.head_dim = 6;
  model.max_position_embeddings = 9;
  return config;
}

RunConfig tiny_llama() {
  RunConfig config = tiny_gpt();
  ModelSection& model = config.model;
  model.architecture = "llama";
  model.num_key_value_heads = 1;
  model.hidden_act = ModelSection::Activation::Silu;
  model.mlp_gated = true;
  model.norm = ModelSection::Norm::RmsNorm;
  model.position = ModelSection::Position::Rope;
  model.attention_bias = model.mlp_bias = model.tie_word_embeddings = false;
  return config;
}

TinyModel::TinyModel(Backend& backend, const RunConfig& config, const TinyModelOptions& options)
    : backend_(backend),
      definition_(changed(define_model(config), options.change)),
      compute_(options.compute),
      store_(definition_.parameters, Mesh({{Axis::Tensor, 1}, {Axis::Data, 1}}), 0),
      buffers_(store_, backend,
               {.compute = options.compute, .gradient = gradient_type(options.compute), .bucket_bytes = 1}) {
  initialise(buffers_, backend, options.seed);
  for (const Parameter& parameter : store_.parameters()) {
    if (options.spread == 0) break;
    // Cast down first: the same model in F64 and in fp32 starts from the same numbers.
    std::vector<double> values = to_host_double(backend, parameter.master);
    const std::vector<double> noise =
        some_values(parameter.master.elements(), random_key(options.seed, parameter.spec.name).value + 1);
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<double>(static_cast<float>(values[i] + options.spread * noise[i]));
    backend.copy(from_host<double>(backend, values, parameter.master.shape()), parameter.master);
  }
  buffers_.refresh_values();
  const UnitOptions unit_options{.backend = backend,
                                 .compute = options.compute,
                                 .sequence_length = options.sequence_length,
                                 .seed = options.dropout_seed,
                                 .recompute = options.recompute,
                                 .constants = &constants_};
  for (int unit = 0; unit < definition_.unit_count(); ++unit)
    units_.push_back(definition_.build_unit(unit, store_, unit_options));
  saved_.resize(units_.size());
  const int64_t step_number = 1;
  const double loss_scale = 0.25;
  step_ = {.step = Steps(1),
           .step_number = from_host<int64_t>(backend, std::span(&step_number, 1), {1}),
           .loss_scale = from_host<double>(backend, std::span(&loss_scale, 1), {1})};
  loss_total_ = zeros(backend, DType::F64, {1});
}

Context TinyModel::context(const Batch& batch, Mode mode) {
  return {.backend = backend_,
          .batch = batch,
          .step = step_,
          .metrics = silent_,
          .mode = mode,
          .loss_total = loss_total_};
}

Tensor TinyModel::forward(const Batch& batch, Mode mode, KeyValueCache* cache) {
  Context ctx = context(batch, mode);
  ctx.cache = cache;
  backend_.fill(loss_total_, 0);
  Tensor x;
  for (size_t unit = 0; unit < units_.size(); ++unit) x = units_[unit]->forward(x, saved_[unit], ctx);
  if (cache != nullptr) cache->length += batch.length;
  return x;
}

std::vector<std::vector<double>> TinyModel::backward(const Batch& batch, bool split) {
  Context ctx = context(batch, Mode::Train);
  std::vector<std::vector<double>> input_gradients;
  Tensor dy;
  for (size_t unit = units_.size(); unit-- > 0;) {
    dy = split ? units_[unit]->backward_input(dy, saved_[unit], ctx)
               : units_[unit]->backward(dy, saved_[unit], ctx);
    if (dy.defined()) input_gradients.push_back(to_host_double(backend_, dy));
  }
  if (split)
    for (size_t unit = units_.size(); unit-- > 0;) units_[unit]->backward_weight(saved_[unit], ctx);
  return input_gradients;
}

double TinyModel::loss() const {
  return to_host<double>(backend_, loss_total_)[0];
}

bool TinyModel::saved_empty() const {
  for (const Saved& saved : saved_)
    if (!saved.empty()) return false;
  return true;
}

NamedValues TinyModel::gradients() const {
  NamedValues values;
  for (const Parameter& parameter : store_.parameters())
    if (parameter.gradient.defined())
      values[parameter.spec.name] = to_host_double(backend_, parameter.gradient);
  return values;
}

KeyValueCache TinyModel::make_cache(int64_t capacity) const {
  KeyValueCache cache;
  for (int block = 0; block + 2 < definition_.unit_count(); ++block)
    cache.blocks.push_back({.k = empty(backend_, compute_, {capacity, definition_.kv_width}),
                            .v = empty(backend_, compute_, {capacity, definition_.kv_width})});
  return cache;
}

}  // namespace tessera::test
