// SPDX-License-Identifier: Apache-2.0
#include "models/common/decoder.h"

#include "models/common/units.h"

namespace tessera {
namespace {

Activation activation_of(ModelSection::Activation key) {
  switch (key) {
    case ModelSection::Activation::Gelu:
      return Activation::Gelu;
    case ModelSection::Activation::GeluNew:
      return Activation::GeluTanh;
    case ModelSection::Activation::Silu:
      break;
  }
  return Activation::Silu;
}

RopeOptions rope_options(const ModelSection& model) {
  const double rotary = static_cast<double>(model.head_dim) * model.rope.partial_rotary_factor;
  RopeOptions options{.theta = model.rope.theta, .rotary_dim = static_cast<int64_t>(rotary)};
  CHECK_AS(
      ExitCode::Usage, options.rotary_dim > 0 && options.rotary_dim % 2 == 0,
      "model.head_dim = {} times model.rope.partial_rotary_factor = {} must be an even number of columns",
      model.head_dim, model.rope.partial_rotary_factor);
  if (!model.rope.scaling) return options;
  const RopeScaling& scaling = *model.rope.scaling;
  switch (scaling.type) {
    case RopeScaling::Type::Linear:
      options.scaling = RopeOptions::Scaling::Linear;
      break;
    case RopeScaling::Type::Llama3:
      options.scaling = RopeOptions::Scaling::Llama3;
      break;
    case RopeScaling::Type::Yarn:
      options.scaling = RopeOptions::Scaling::Yarn;
      break;
  }
  options.factor = scaling.factor;
  options.original_positions = scaling.original_max_position_embeddings;
  options.low_frequency_factor = scaling.low_freq_factor;
  options.high_frequency_factor = scaling.high_freq_factor;
  options.beta_fast = scaling.beta_fast;
  options.beta_slow = scaling.beta_slow;
  options.attention_factor = scaling.attention_factor;
  return options;
}

}  // namespace

DecoderConfig decoder_config(const RunConfig& config) {
  const ModelSection& model = config.model;
  CHECK_AS(ExitCode::Usage,
           model.num_key_value_heads > 0 && model.num_attention_heads % model.num_key_value_heads == 0,
           "model.num_attention_heads = {} must be a multiple of model.num_key_value_heads = {}",
           model.num_attention_heads, model.num_key_value_heads);
  const bool rotary = model.position == ModelSection::Position::Rope;
  const bool learned = model.position == ModelSection::Position::Learned;
  return {
      .vocab_size = model.vocab_size,
      .hidden_size = model.hidden_size,
      .intermediate_size = model.intermediate_size,
      .layers = model.num_hidden_layers,
      .heads = model.num_attention_heads,
      .kv_heads = model.num_key_value_heads,
      .head_dim = model.head_dim,
      .learned_positions = learned ? model.max_position_embeddings : 0,
      .rotary = rotary,
      .rope = rotary ? rope_options(model) : RopeOptions{},
      .activation = activation_of(model.hidden_act),
      .mlp_gated = model.mlp_gated,
      .rms_norm = model.norm == ModelSection::Norm::RmsNorm,
      .norm_epsilon = model.norm_eps,
      .attention_bias = model.attention_bias,
      .mlp_bias = model.mlp_bias,
      .tied = model.tie_word_embeddings,
      .query_key_norm = model.qk_norm,
      .window = model.sliding_window.value_or(0),
      .attention_dropout = model.attention_dropout,
      .hidden_dropout = model.hidden_dropout,
      .label_smoothing = config.train.label_smoothing,
      .initial_std = model.initializer_range,
      .residual_initial_std = model.initializer_range,
      .sequence_parallel = config.parallel.sequence_parallel,
  };
}

ModelDefinition define_decoder(const DecoderConfig& config) {
  ModelDefinition definition;
  definition.parameters = decoder_parameters(config);
  definition.unit_names.push_back("embedding");
  for (int64_t block = 0; block < config.layers; ++block)
    definition.unit_names.push_back(fmt::format("blocks.{}", block));
  definition.unit_names.push_back("head");
  definition.vocab_size = config.vocab_size;
  definition.hidden_size = config.hidden_size;
  definition.kv_width = config.kv_heads * config.head_dim;
  definition.build_unit = [config](int unit, const ParameterStore& store, const UnitOptions& options) {
    CHECK(unit >= 0 && unit <= config.layers + 1, "unit {} of a model with {} units", unit,
          config.layers + 2);
    const UnitBuilder builder(config, store, options);
    if (unit == 0) return builder.embedding();
    if (unit == config.layers + 1) return builder.head();
    return builder.block(unit - 1);
  };
  return definition;
}

}  // namespace tessera
