// SPDX-License-Identifier: Apache-2.0
// The small cases of every family but attention: sizes 1, 3, 7 and 1003, slices, aliases, frozen weights.
#include "tests/ops/case_builders.h"

namespace tessera::test {
namespace {
using enum ElementKind;
constexpr Activation kKinds[] = {Activation::None, Activation::Gelu, Activation::GeluTanh, Activation::Silu,
                                 Activation::Relu};
}  // namespace

void add_matmul_cases(std::vector<OpCase>& cases) {
  for (const bool transpose_a : {false, true})
    for (const bool transpose_b : {false, true}) {
      cases.push_back(
          matmul_case({.m = 7, .n = 33, .k = 20, .transpose_a = transpose_a, .transpose_b = transpose_b}));
      cases.push_back(matmul_case({.m = 65,
                                   .n = 50,
                                   .k = 500,
                                   .transpose_a = transpose_a,
                                   .transpose_b = transpose_b,
                                   .accumulate = true,
                                   .wide_result = true,
                                   .gap = 3}));
    }
  cases.push_back(matmul_case({.m = 1, .n = 1, .k = 1}));
  cases.push_back(matmul_case({.m = 3, .n = 1003, .k = 7, .transpose_b = true, .bias = true}));
  cases.push_back(matmul_case({.m = 5, .n = 4, .k = 0, .bias = true}));
  for (const Activation kind : kKinds) {
    cases.push_back(matmul_case(
        {.m = 9, .n = 50, .k = 31, .transpose_b = true, .bias = true, .derivative = true, .kind = kind}));
    cases.push_back(matmul_case({.m = 9, .n = 50, .k = 31, .multiply = true, .kind = kind, .gap = 1}));
  }
  cases.push_back(matmul_case({.m = 40, .n = 60, .k = 800, .accumulate = true, .multiply = true}));
}

void add_norm_cases(std::vector<OpCase>& cases) {
  for (const int64_t width : {int64_t{1}, int64_t{3}, int64_t{33}, int64_t{1003}}) {
    cases.push_back(layer_norm_case(7, width, true, 0));
    cases.push_back(rms_norm_case(7, width, 1, 0, false));
    cases.push_back(layer_norm_backward_case(7, width, false, 0));
    cases.push_back(rms_norm_backward_case(7, width, 1, false, 0, false));
  }
  cases.push_back(layer_norm_case(100, 40, false, 5));
  cases.push_back(layer_norm_backward_case(101, 40, false, 5));
  cases.push_back(layer_norm_backward_case(3, 40, true, 0));
  cases.push_back(layer_norm_backward_case(2500, 3, false, 0));
  cases.push_back(rms_norm_case(70, 20, 3, 9, false));
  cases.push_back(rms_norm_case(70, 16, 4, 9, true));
  cases.push_back(rms_norm_backward_case(101, 20, 3, false, 9, false));
  cases.push_back(rms_norm_backward_case(33, 16, 4, false, 9, true));
  cases.push_back(rms_norm_backward_case(3, 16, 2, true, 0, false));
}

void add_activation_cases(std::vector<OpCase>& cases) {
  for (const Activation kind : kKinds) {
    cases.push_back(activation_case(kind, 3, 1003, 0, false));
    cases.push_back(activation_case(kind, 7, 5, 2, true));
    cases.push_back(activation_backward_case(kind, 3, 101, 0, false));
    cases.push_back(activation_backward_case(kind, 7, 5, 2, true));
    cases.push_back(gated_case(kind, 7, 33, 4));
    cases.push_back(gated_backward_case(kind, 7, 33, 4, false));
    cases.push_back(gated_backward_case(kind, 3, 7, 0, true));
  }
  // More rows than one thread gets.
  cases.push_back(activation_case(Activation::Gelu, 41, 1003, 0, false));
  cases.push_back(gated_backward_case(Activation::Silu, 41, 503, 0, false));
}

void add_embedding_cases(std::vector<OpCase>& cases) {
  for (const bool backward : {false, true}) {
    cases.push_back(rope_case(1, 1, 2, 2, 0, backward));
    cases.push_back(rope_case(50, 3, 20, 20, 7, backward));
    cases.push_back(rope_case(300, 4, 64, 64, 0, backward));
    cases.push_back(rope_case(9, 2, 15, 6, 0, backward));
  }
  for (const bool accumulate : {false, true}) {
    cases.push_back(embedding_case(11, 7, 40, 0, accumulate));
    cases.push_back(embedding_case(1003, 64, 300, 500, accumulate));
  }
  for (const ElementKind accumulator : {Wide, Compute}) {
    cases.push_back(embedding_backward_case(11, 7, 40, 0, accumulator));
    cases.push_back(embedding_backward_case(30, 200, 300, 5, accumulator));
  }
}

void add_cross_entropy_cases(std::vector<OpCase>& cases) {
  for (const double smoothing : {0.0, 0.1}) {
    for (const char* op : {"cross_entropy_stats", "cross_entropy_backward"}) {
      cases.push_back(cross_entropy_case(op, 9, 7, 0, 7, smoothing));
      cases.push_back(cross_entropy_case(op, 33, 1003, 0, 1003, smoothing));
      cases.push_back(cross_entropy_case(op, 9, 3, 0, 3, smoothing));
    }
    cases.push_back(cross_entropy_case("cross_entropy_stats", 13, 50, 20, 17, smoothing));
    cases.push_back(cross_entropy_case("cross_entropy_rescale", 13, 50, 20, 17, smoothing));
    cases.push_back(cross_entropy_case("cross_entropy_loss", 13, 50, 0, 50, smoothing));
    cases.push_back(cross_entropy_case("cross_entropy_loss", 1, 1, 0, 1, smoothing));
  }
}

void add_elementwise_cases(std::vector<OpCase>& cases) {
  for (const bool residual : {false, true}) {
    cases.push_back(dropout_case(7, 33, 0.3, residual, 0, true));
    cases.push_back(dropout_case(70, 1003, 0.1, residual, 6, false));
  }
  cases.push_back(dropout_case(3, 5, 0, false, 1, false));
  for (const char* alias : {"", "a", "b"}) {
    cases.push_back(add_case(7, 33, 5, alias));
    cases.push_back(add_case(50, 1003, 0, alias));
  }
  cases.push_back(scale_case(7, 33, 5));
  cases.push_back(scale_case(50, 1003, 0));
  for (const ElementKind from : {Compute, Wide, F64})
    for (const ElementKind to : {Compute, Wide, F64}) {
      cases.push_back(copy_case(7, 33, from, to, 6));
      cases.push_back(copy_case(50, 1003, from, to, 0));
    }
  for (const ElementKind accumulator : {Wide, Compute}) {
    cases.push_back(column_sum_case(1, 1, accumulator, 0));
    cases.push_back(column_sum_case(7, 33, accumulator, 5));
    cases.push_back(column_sum_case(2500, 130, accumulator, 0));
  }
  for (const int64_t terms : {1, 2, 3, 8}) cases.push_back(sum_case(terms, 3333));
  for (const ElementKind kind : {Wide, Compute}) {
    cases.push_back(sum_squares_case(1, 1, kind, 0));
    cases.push_back(sum_squares_case(7, 33, kind, 5));
    cases.push_back(sum_squares_case(50, 1003, kind, 0));
  }
  for (const int64_t count : {1, 7, 50003}) {
    cases.push_back(sum_squared_differences_case(count));
    cases.push_back(histogram_case(count, 0.02));
  }
  OpCase fill{.op = "fill", .numbers = {{"value", -2.5}}};
  fill.tensors = {{.name = "x", .shape = {41, 1003}, .use = Use::Output, .row_gap = 3}};
  cases.push_back(fill);
}

void add_update_cases(std::vector<OpCase>& cases) {
  cases.push_back(init_normal_case(1, 1, 0, 0));
  cases.push_back(init_normal_case(7, 33, 1234567, 50));
  cases.push_back(init_normal_case(41, 503, 3, 503));
  for (const ElementKind gradient : {Wide, Compute})
    for (const ElementKind value : {Wide, Compute}) {
      cases.push_back(adamw_case(7, gradient, value, 0.1));
      cases.push_back(adamw_case(40003, gradient, value, 0));
    }
  for (const double momentum : {0.0, 0.9}) {
    cases.push_back(sgd_case(7, momentum, 0));
    cases.push_back(sgd_case(40003, momentum, 0.1));
  }
}

}  // namespace tessera::test
