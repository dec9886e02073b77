// SPDX-License-Identifier: Apache-2.0
// The functions of ops/ refuse what a backend could not compute, and count what it does.
#include <gtest/gtest.h>

#include "framework/backends/cpu/cpu_backend.h"
#include "framework/ops/activation.h"
#include "framework/ops/attention.h"
#include "framework/ops/copy.h"
#include "framework/ops/cross_entropy.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/embedding.h"
#include "framework/ops/matmul.h"
#include "framework/ops/memory.h"
#include "framework/ops/norm.h"
#include "framework/ops/optimizer_step.h"
#include "framework/ops/reduce.h"

namespace tessera {
namespace {

class OpChecks : public ::testing::Test {
 protected:
  Tensor f32(Shape shape) { return zeros(*backend_, DType::F32, shape); }
  Tensor i32(Shape shape) { return zeros(*backend_, DType::I32, shape); }
  Tensor of(DType dtype, Shape shape) { return zeros(*backend_, dtype, shape); }
  Backend& b() { return *backend_; }

 private:
  std::unique_ptr<Backend> backend_ = make_cpu_backend(1);
};

TEST_F(OpChecks, matmul) {
  EXPECT_THROW(matmul(b(), f32({3, 4}), f32({3, 4})), Error);
  EXPECT_EQ(matmul(b(), f32({3, 4}), f32({3, 4}), {.transpose_b = true}).shape(), (Shape{3, 3}));
  EXPECT_THROW(matmul(b(), f32({3, 4}), of(DType::F64, {4, 3})), Error);
  EXPECT_THROW(matmul(b(), f32({3, 4}), f32({4, 5}), {.bias = f32({3})}), Error);
  EXPECT_THROW(matmul(b(), f32({3, 4}), f32({4, 5}), {.multiply = f32({5, 3})}), Error);
  EXPECT_THROW(accumulate_matmul(b(), f32({3, 4}), f32({4, 5}), f32({5, 3})), Error);
}

TEST_F(OpChecks, norms) {
  EXPECT_THROW(layer_norm(b(), f32({3, 4}), f32({3}), f32({4}), 1e-5), Error);
  EXPECT_THROW(layer_norm(b(), f32({3, 4}), of(DType::BF16, {4}), f32({4}), 1e-5), Error);
  EXPECT_THROW(rms_norm(b(), f32({3, 10}), f32({4}), 1e-5), Error);
  EXPECT_EQ(rms_norm(b(), f32({3, 10}), f32({5}), 1e-5).inv_rms.shape(), (Shape{3, 2}));
  EXPECT_EQ(layer_norm(b(), of(DType::BF16, {3, 4}), of(DType::BF16, {4}), {}, 1e-5).mean.dtype(),
            DType::F32);
  const LayerNormResult result = layer_norm(b(), f32({3, 4}), f32({4}), f32({4}), 1e-5);
  EXPECT_THROW(
      layer_norm_backward(b(), f32({3, 5}), f32({3, 4}), f32({4}), result.mean, result.inv_std, {}, {}),
      Error);
  EXPECT_THROW(layer_norm_backward(b(), f32({3, 4}), f32({3, 4}), f32({4}), result.mean, result.inv_std,
                                   of(DType::F64, {4}), {}),
               Error);
}

TEST_F(OpChecks, activations) {
  EXPECT_THROW(activation(b(), Activation::Gelu, i32({3, 4})), Error);
  EXPECT_THROW(gated_activation(b(), Activation::Silu, f32({3, 5})), Error);
  EXPECT_THROW(activation_backward(b(), Activation::Relu, f32({3, 4}), f32({4, 3})), Error);
  EXPECT_EQ(gated_activation(b(), Activation::Silu, f32({3, 6})).shape(), (Shape{3, 3}));
}

TEST_F(OpChecks, attention) {
  AttentionOptions options{.rows = 2, .heads = 4, .kv_heads = 2, .mask = {.document_start = i32({10})}};
  const Tensor q = f32({10, 16}), k = f32({10, 8});
  EXPECT_EQ(attention(b(), q, k, k, options).lse.shape(), (Shape{10, 4}));
  options.kv_heads = 3;
  EXPECT_THROW(attention(b(), q, k, k, options), Error);
  options.kv_heads = 2;
  EXPECT_THROW(attention(b(), q, f32({10, 16}), k, options), Error);
  EXPECT_THROW(attention(b(), q, k, f32({8, 8}), options), Error);
  options.rows = 3;
  EXPECT_THROW(attention(b(), q, k, k, options), Error);
  options.rows = 2;
  options.mask.document_start = i32({9});
  EXPECT_THROW(attention(b(), q, k, k, options), Error);
  options.mask.document_start = i32({10});
  options.dropout.probability = 1;
  EXPECT_THROW(attention(b(), q, k, k, options), Error);
  options.dropout.probability = 0.5;
  EXPECT_THROW(attention(b(), q, k, k, options), Error);  // no step
}

TEST_F(OpChecks, attention_key_by_key) {
  const AttentionOptions options{
      .rows = 2, .heads = 4, .kv_heads = 2, .mask = {.document_start = i32({10})}, .visible_pairs = 3};
  const Tensor q = of(DType::BF16, {10, 16}), k = of(DType::BF16, {10, 8});
  const AttentionResult result = nothing_attended(b(), q, 4);
  EXPECT_EQ(result.y.describe(), f32({10, 16}).describe());
  EXPECT_EQ(result.lse.describe(), f32({10, 4}).describe());
  const int64_t before = b().flops().model;
  attention_add(b(), q, k, k, result, options);
  EXPECT_EQ(b().flops().model - before, 4 * 3 * 16);
  EXPECT_THROW(attention_add(b(), q, k, k, {q, result.lse}, options), Error);
  EXPECT_THROW(attention_add(b(), q, k, k, {result.y, f32({10, 3})}, options), Error);
  const AttentionGradients sums{f32({10, 16}), f32({10, 8}), f32({10, 8})};
  attention_backward_add(b(), q, q, k, k, {q, result.lse}, sums, options);
  EXPECT_EQ(b().flops().model - before, 12 * 3 * 16);
  EXPECT_THROW(attention_backward_add(b(), q, q, k, k, {q, result.lse}, {q, sums.dk, sums.dv}, options),
               Error);
  EXPECT_THROW(attention_backward_add(b(), q, q, k, k, {q, result.lse}, {sums.dq, sums.dk, k}, options),
               Error);
  EXPECT_THROW(attention_backward_add(b(), q, q, k, k, result, sums, options), Error);
}

TEST_F(OpChecks, rope) {
  EXPECT_THROW(rope(b(), f32({3, 8}), f32({5, 6}), i32({3}), 4), Error);
  EXPECT_THROW(rope(b(), f32({3, 8}), f32({5, 4}), i32({4}), 4), Error);
  // A position outside of the table is found where it is read.
  Tensor positions = i32({3});
  fill(b(), positions, 5);
  EXPECT_THROW(rope(b(), f32({3, 8}), f32({5, 4}), positions, 4), Error);
}

TEST_F(OpChecks, embedding) {
  EXPECT_THROW(accumulate_embedding(b(), f32({5, 4}), i32({3}), f32({3, 5})), Error);
  EXPECT_THROW(embedding(b(), f32({5, 4}), f32({3})), Error);
  EXPECT_THROW(embedding_backward(b(), f32({3, 4}), i32({2}), f32({5, 4})), Error);
  EXPECT_THROW(embedding_backward(b(), f32({3, 4}), i32({3}), f32({5, 5})), Error);
}

TEST_F(OpChecks, cross_entropy) {
  EXPECT_THROW(cross_entropy_stats(b(), f32({3, 7}), i32({3}), {.classes = 6}), Error);
  EXPECT_THROW(cross_entropy_stats(b(), f32({3, 4}), i32({4}), {.classes = 7}), Error);
  EXPECT_THROW(cross_entropy_loss(b(), f32({3, 4}), i32({3}), f32({3}), f32({1}), {.classes = 7}), Error);
}

TEST_F(OpChecks, elementwise_and_sums) {
  EXPECT_THROW(add(b(), f32({3, 4}), f32({4, 3})), Error);
  EXPECT_THROW(scale(b(), i32({3}), 2), Error);
  EXPECT_THROW(dropout(b(), f32({3, 4}), DropoutOptions{}), Error);
  EXPECT_THROW(init_normal(b(), of(DType::BF16, {3, 4}), {1}, 1, 0, 4), Error);
  EXPECT_THROW(column_sum(b(), f32({3, 4}), f32({3})), Error);
  EXPECT_THROW(sum(b(), {}, f32({3})), Error);
  EXPECT_THROW(sum_squares(b(), f32({3}), f32({1})), Error);
  EXPECT_THROW(sum_squared_differences(b(), f32({3}), f32({4}), of(DType::F64, {1})), Error);
  EXPECT_THROW(histogram(b(), f32({3}), of(DType::I64, {3}), of(DType::F64, {1})), Error);
  EXPECT_THROW(copy(b(), f32({3}), i32({3})), Error);
}

TEST_F(OpChecks, updates) {
  const Tensor scalars = of(DType::F64, {4});
  AdamwArgs adamw_args{.master = f32({5}),
                       .m = f32({5}),
                       .v = f32({4}),
                       .gradient = f32({5}),
                       .value = f32({5}),
                       .scalars = scalars,
                       .beta1 = 0.9,
                       .beta2 = 0.9,
                       .epsilon = 1,
                       .weight_decay = 0,
                       .learning_rate_factor = 1};
  EXPECT_THROW(adamw(b(), adamw_args), Error);
  SgdArgs sgd_args{.master = f32({5}),
                   .gradient = f32({5}),
                   .value = f32({5}),
                   .scalars = scalars,
                   .velocity = {},
                   .momentum = 0.9,
                   .weight_decay = 0,
                   .learning_rate_factor = 1};
  EXPECT_THROW(sgd(b(), sgd_args), Error);  // momentum without a velocity
}

TEST_F(OpChecks, operations_are_counted) {
  FlopCounter& flops = b().flops();
  matmul(b(), f32({3, 4}), f32({4, 5}));
  EXPECT_EQ(flops.model, 2 * 3 * 4 * 5);
  flops = {};
  const AttentionOptions options{
      .rows = 1, .heads = 2, .kv_heads = 1, .mask = {.document_start = i32({3})}, .visible_pairs = 6};
  const Tensor q = f32({3, 8}), k = f32({3, 4});
  const AttentionResult result = attention(b(), q, k, k, options);
  EXPECT_EQ(flops.model, 2 * 2 * 6 * 2 * 4);
  flops = {};
  attention_backward(b(), q, q, k, k, result, {f32({3, 8}), f32({3, 4}), f32({3, 4})}, options);
  EXPECT_EQ(flops.model, 4 * 2 * 6 * 2 * 4);
  EXPECT_EQ(flops.hardware, 5 * 2 * 6 * 2 * 4);
  flops = {.recomputing = true};
  matmul(b(), f32({3, 4}), f32({4, 5}));
  EXPECT_EQ(flops.model, 0);
  EXPECT_EQ(flops.hardware, 120);
}

}  // namespace
}  // namespace tessera
