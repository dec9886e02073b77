// SPDX-License-Identifier: Apache-2.0
// How cases are put together, a family at a time.
#pragma once
#include "tests/ops/case_list.h"

namespace tessera::test {

void add_matmul_cases(std::vector<OpCase>& cases);
void add_norm_cases(std::vector<OpCase>& cases);
void add_activation_cases(std::vector<OpCase>& cases);
void add_attention_cases(std::vector<OpCase>& cases);
void add_embedding_cases(std::vector<OpCase>& cases);
void add_cross_entropy_cases(std::vector<OpCase>& cases);
void add_elementwise_cases(std::vector<OpCase>& cases);
void add_update_cases(std::vector<OpCase>& cases);

// Single cases, shared by the small and the timed list.
OpCase layer_norm_case(int64_t rows, int64_t width, bool bias, int64_t gap);
OpCase layer_norm_backward_case(int64_t rows, int64_t width, bool frozen, int64_t gap);
OpCase rms_norm_case(int64_t rows, int64_t width, int64_t groups, int64_t gap, bool in_place);
OpCase rms_norm_backward_case(int64_t rows, int64_t width, int64_t groups, bool frozen, int64_t gap,
                              bool in_place);
OpCase activation_case(Activation kind, int64_t rows, int64_t width, int64_t gap, bool in_place);
OpCase activation_backward_case(Activation kind, int64_t rows, int64_t width, int64_t gap, bool in_place);
OpCase gated_case(Activation kind, int64_t rows, int64_t width, int64_t gap);
OpCase gated_backward_case(Activation kind, int64_t rows, int64_t width, int64_t gap, bool in_place);

struct AttentionCase {
  int64_t rows = 1, queries = 5, keys = 5, heads = 1, kv_heads = 1, head_dim = 8;
  int64_t window = 0, query_offset = 0, key_offset = 0;
  std::vector<int64_t> documents = {};  // lengths of a row's documents; the last fills the row
  int64_t padding = 0;                  // last queries of a row that see nothing
  double probability = 0;
  bool slices = false;  // q, k and v are parts of one buffer
};
OpCase attention_case(const AttentionCase& options, bool backward);
// The same as further keys of a result over others; `begun` is false where there were none before.
OpCase attention_add_case(const AttentionCase& options, bool begun);
OpCase attention_backward_add_case(const AttentionCase& options);

struct MatmulCase {
  int64_t m, n, k;
  bool transpose_a = false, transpose_b = false, accumulate = false, wide_result = false, bias = false,
       derivative = false, multiply = false;
  Activation kind = Activation::None;
  int64_t gap = 0;
};
OpCase matmul_case(const MatmulCase& options);

OpCase rope_case(int64_t rows, int64_t heads, int64_t head_dim, int64_t rotary_dim, int64_t gap,
                 bool backward);
OpCase embedding_case(int64_t rows, int64_t width, int64_t tokens, int64_t first_row, bool accumulate);
OpCase embedding_backward_case(int64_t rows, int64_t width, int64_t tokens, int64_t first_row,
                               ElementKind accumulator);
OpCase cross_entropy_case(const std::string& op, int64_t rows, int64_t classes, int64_t first_class,
                          int64_t local_classes, double smoothing);
OpCase dropout_case(int64_t rows, int64_t width, double probability, bool residual, int64_t column_offset,
                    bool in_place);
OpCase add_case(int64_t rows, int64_t width, int64_t gap, const std::string& alias);
OpCase scale_case(int64_t rows, int64_t width, int64_t gap);
OpCase copy_case(int64_t rows, int64_t width, ElementKind from, ElementKind to, int64_t gap);
OpCase column_sum_case(int64_t rows, int64_t width, ElementKind accumulator, int64_t gap);
OpCase sum_case(int64_t terms, int64_t count);
OpCase sum_squares_case(int64_t rows, int64_t width, ElementKind kind, int64_t gap);
OpCase sum_squared_differences_case(int64_t count);
OpCase histogram_case(int64_t count, double deviation);
OpCase init_normal_case(int64_t rows, int64_t width, int64_t first_index, int64_t row_pitch);
OpCase adamw_case(int64_t count, ElementKind gradient, ElementKind value, double weight_decay);
OpCase sgd_case(int64_t count, double momentum, double weight_decay);

}  // namespace tessera::test
