// SPDX-License-Identifier: Apache-2.0
// A pre-norm decoder-only transformer, as the [model] keys describe it. The families of models/ fill in a
// DecoderConfig; this file declares its parameters once, with names that are API, and builds its units.
#pragma once
#include "framework/config/run_config.h"
#include "framework/nn/model.h"
#include "framework/nn/rope.h"

namespace tessera {

struct DecoderConfig {
  int64_t vocab_size = 0, hidden_size = 0, intermediate_size = 0, layers = 0;
  int64_t heads = 0, kv_heads = 0, head_dim = 0;
  int64_t learned_positions = 0;  // rows of the position table; 0: none
  bool rotary = false;
  RopeOptions rope;
  Activation activation = Activation::GeluTanh;
  bool mlp_gated = false;
  bool rms_norm = false;
  double norm_epsilon = 1e-5;
  bool attention_bias = true, mlp_bias = true, tied = true, query_key_norm = false;
  int64_t window = 0;  // 0: none
  double attention_dropout = 0, hidden_dropout = 0, label_smoothing = 0;
  double initial_std = 0.02;
  double residual_initial_std = 0.02;  // of the projections that end a residual branch
  bool sequence_parallel = false;
};

// Everything that the families share; residual_initial_std is initializer_range.
DecoderConfig decoder_config(const RunConfig& config);

std::vector<ParameterSpec> decoder_parameters(const DecoderConfig& config);
ModelDefinition define_decoder(const DecoderConfig& config);

}  // namespace tessera
