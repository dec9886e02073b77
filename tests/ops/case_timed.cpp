// SPDX-License-Identifier: Apache-2.0
// The operations of one step of the 14M benchmark model: 2048 tokens in 8 rows, hidden 384, 6 heads, mlp
// 1536, vocabulary 8192; and what the Llama family needs beside them at the same size.
#include "tests/ops/case_builders.h"

namespace tessera::test {

std::vector<OpCase> timed_cases() {
  using enum ElementKind;
  constexpr int64_t tokens = 2048, hidden = 384, heads = 6, mlp = 1536, vocabulary = 8192;
  const AttentionCase rows{.rows = 8,
                           .queries = 256,
                           .keys = 256,
                           .heads = heads,
                           .kv_heads = heads,
                           .head_dim = 64,
                           .slices = true};
  AttentionCase grouped = rows, windowed = rows;
  grouped.kv_heads = 2;
  windowed.window = 64;
  std::vector<OpCase> cases{
      matmul_case({.m = tokens, .n = 3 * hidden, .k = hidden, .transpose_b = true, .bias = true}),
      matmul_case({.m = tokens,
                   .n = mlp,
                   .k = hidden,
                   .transpose_b = true,
                   .bias = true,
                   .derivative = true,
                   .kind = Activation::Gelu}),
      matmul_case({.m = tokens, .n = hidden, .k = mlp, .transpose_b = true, .bias = true}),
      matmul_case({.m = tokens, .n = vocabulary, .k = hidden, .transpose_b = true}),
      matmul_case({.m = tokens, .n = hidden, .k = vocabulary}),
      matmul_case({.m = mlp, .n = hidden, .k = tokens, .transpose_a = true, .accumulate = true}),
      layer_norm_case(tokens, hidden, true, 0),
      layer_norm_backward_case(tokens, hidden, false, 0),
      rms_norm_case(tokens, hidden, 1, 0, false),
      rms_norm_backward_case(tokens, hidden, 1, false, 0, false),
      rms_norm_case(tokens, 64, heads, 2 * hidden, true),
      activation_case(Activation::Gelu, tokens, mlp, 0, false),
      activation_backward_case(Activation::Gelu, tokens, mlp, 0, false),
      gated_case(Activation::Silu, tokens, mlp, 0),
      gated_backward_case(Activation::Silu, tokens, mlp, 0, false),
      rope_case(tokens, heads, 64, 64, 2 * hidden, false),
      embedding_case(vocabulary, hidden, tokens, 0, false),
      embedding_backward_case(vocabulary, hidden, tokens, 0, Wide),
      cross_entropy_case("cross_entropy_stats", tokens, vocabulary, 0, vocabulary, 0),
      cross_entropy_case("cross_entropy_backward", tokens, vocabulary, 0, vocabulary, 0),
      dropout_case(tokens, hidden, 0.1, true, 0, false),
      add_case(tokens, hidden, 0, ""),
      scale_case(tokens, hidden, 0),
      copy_case(tokens, mlp, Compute, Compute, 0),
      copy_case(tokens, mlp, Wide, Compute, 0),
      column_sum_case(tokens, mlp, Wide, 0),
      sum_case(2, tokens * mlp),
      sum_squares_case(tokens, mlp, Wide, 0),
      sum_squared_differences_case(vocabulary * hidden),
      histogram_case(vocabulary * hidden, 0.02),
      init_normal_case(vocabulary, hidden, 0, hidden),
      adamw_case(vocabulary * hidden, Wide, Compute, 0.1),
      sgd_case(vocabulary * hidden, 0.9, 0.1),
  };
  for (const AttentionCase& options : {rows, grouped, windowed})
    for (const bool backward : {false, true}) cases.push_back(attention_case(options, backward));
  for (OpCase& c : cases) c.timed = true;
  return cases;
}

}  // namespace tessera::test
