// SPDX-License-Identifier: Apache-2.0
// Every module against finite differences in F64. Sizes are odd on purpose.
#include <gtest/gtest.h>

#include "framework/nn/attention.h"
#include "framework/nn/linear.h"
#include "framework/nn/loss_head.h"
#include "framework/nn/mlp.h"
#include "framework/nn/recompute.h"
#include "framework/nn/residual.h"
#include "framework/nn/rope.h"
#include "framework/parallel/tensor/embedding.h"
#include "tests/modules/module_harness.h"

namespace tessera::test {
namespace {

constexpr int64_t kHidden = 5;

TEST(ModuleGradients, Linear) {
  ModuleHarness harness({matrix("w", 3, kHidden), vector("b", 3)});
  harness.check(Linear(harness.weight("w"), &harness.weight("b")), kHidden);
}

TEST(ModuleGradients, LinearWithoutBias) {
  ModuleHarness harness({matrix("w", 7, kHidden)});
  harness.check(Linear(harness.weight("w"), nullptr), kHidden);
}

TEST(ModuleGradients, FrozenLinearKeepsNoInput) {
  ParameterSpec frozen = matrix("w", 3, kHidden);
  frozen.trainable = false;
  ModuleHarness harness({frozen, vector("b", 3)});
  const Linear linear(harness.weight("w"), &harness.weight("b"));
  harness.check(linear, kHidden);
  Saved saved;
  Context context = harness.context();
  const Tensor x = Tensor(harness.weight("w").value).flat().reshape({3, kHidden});
  linear.forward(x, saved, context);
  EXPECT_EQ(saved.bytes(), 0);
}

TEST(ModuleGradients, LayerNorm) {
  ModuleHarness harness({vector("g", kHidden), vector("b", kHidden)});
  harness.check(LayerNorm(harness.weight("g"), harness.weight("b"), 1e-5), kHidden);
}

TEST(ModuleGradients, RmsNorm) {
  ModuleHarness harness({vector("g", kHidden)});
  harness.check(RmsNorm(harness.weight("g"), 1e-6), kHidden);
}

struct AttentionCase {
  const char* name;
  int64_t heads = 3, kv_heads = 3, head_dim = 6, window = 0;
  double dropout = 0;
  bool bias = true, norms = false, recompute = false;
  RopeOptions rope = {.rotary_dim = 0};
  int64_t group = 0, first_head = 0;  // of a part of the heads, as a rank of several has it
};
std::ostream& operator<<(std::ostream& out, const AttentionCase& c) {
  return out << c.name;
}

class AttentionGradients : public testing::TestWithParam<AttentionCase> {};

TEST_P(AttentionGradients, EqualDifferences) {
  const AttentionCase& c = GetParam();
  const int64_t q = c.heads * c.head_dim, kv = c.kv_heads * c.head_dim;
  ModuleHarness harness({matrix("q", q, kHidden, "qkv"), matrix("k", kv, kHidden, "qkv"),
                         matrix("v", kv, kHidden, "qkv"), vector("qb", q, "qkvb"), vector("kb", kv, "qkvb"),
                         vector("vb", kv, "qkvb"), vector("qn", c.head_dim), vector("kn", c.head_dim),
                         matrix("o", kHidden, q), vector("ob", kHidden)});
  const auto optional = [&](bool present, const char* name) {
    return present ? &harness.weight(name) : nullptr;
  };
  SelfAttentionSettings settings{
      .attention = {.share = {.heads = c.heads,
                              .head_dim = c.head_dim,
                              .group = c.group > 0 ? c.group : c.heads / c.kv_heads,
                              .first_head = c.first_head},
                    .window = c.window,
                    .dropout = c.dropout,
                    .dropout_key = random_key(1, "dropout")},
      .norm_epsilon = 1e-5,
      .recompute = c.recompute};
  if (c.rope.rotary_dim > 0) settings.rope_table = rope_table(harness.backend(), c.rope, 7, DType::F64);
  SelfAttentionParts parts{.qkv = std::make_unique<Linear>(harness.weight("qkv"), optional(c.bias, "qkvb")),
                           .core = std::make_unique<LocalAttention>(settings.attention),
                           .output = std::make_unique<Linear>(harness.weight("o"), optional(c.bias, "ob")),
                           .query_norm = optional(c.norms, "qn"),
                           .key_norm = optional(c.norms, "kn")};
  harness.check(SelfAttention(std::move(parts), settings), kHidden);
}

using Scaling = RopeOptions::Scaling;
INSTANTIATE_TEST_SUITE_P(
    Forms, AttentionGradients,
    testing::Values(
        AttentionCase{.name = "plain"}, AttentionCase{.name = "no_bias", .bias = false},
        AttentionCase{.name = "one_key_head_odd_width", .kv_heads = 1, .head_dim = 5},
        AttentionCase{.name = "window", .window = 2}, AttentionCase{.name = "dropout", .dropout = 0.4},
        AttentionCase{.name = "grouped", .heads = 4, .kv_heads = 2, .head_dim = 3},
        AttentionCase{.name = "parts_of_two_groups",
                      .heads = 4,
                      .kv_heads = 2,
                      .head_dim = 3,
                      .dropout = 0.2,
                      .group = 3,
                      .first_head = 2},
        AttentionCase{.name = "norms", .kv_heads = 1, .norms = true},
        AttentionCase{.name = "rope", .kv_heads = 1, .rope = {.rotary_dim = 6}},
        AttentionCase{.name = "part_rotates", .kv_heads = 1, .head_dim = 5, .rope = {.rotary_dim = 4}},
        AttentionCase{.name = "norms_rope", .norms = true, .rope = {.rotary_dim = 6}},
        AttentionCase{.name = "linear", .rope = {.rotary_dim = 6, .scaling = Scaling::Linear, .factor = 3}},
        AttentionCase{.name = "llama3",
                      .rope = {.theta = 50,
                               .rotary_dim = 6,
                               .scaling = Scaling::Llama3,
                               .factor = 8,
                               .original_positions = 40}},
        AttentionCase{.name = "yarn",
                      .norms = true,
                      .rope = {.theta = 50,
                               .rotary_dim = 6,
                               .scaling = Scaling::Yarn,
                               .factor = 4,
                               .original_positions = 64,
                               .beta_fast = 4,
                               .attention_factor = 1.3}},
        AttentionCase{.name = "recompute_all_together",
                      .kv_heads = 1,
                      .window = 3,
                      .dropout = 0.3,
                      .norms = true,
                      .recompute = true,
                      .rope = {.rotary_dim = 4}}),
    [](const auto& info) { return info.param.name; });

struct MlpCase {
  const char* name;
  Activation activation;
  bool gated = false, bias = true, recompute = false;
};
std::ostream& operator<<(std::ostream& out, const MlpCase& c) {
  return out << c.name;
}

class MlpGradients : public testing::TestWithParam<MlpCase> {};

TEST_P(MlpGradients, EqualDifferences) {
  const MlpCase& c = GetParam();
  constexpr int64_t inner = 7;
  const int64_t rows = c.gated ? 2 * inner : inner;
  ModuleHarness harness({matrix("up", rows, kHidden), vector("ub", rows), matrix("down", kHidden, inner),
                         vector("db", kHidden)});
  harness.check(
      Mlp(std::make_unique<Linear>(harness.weight("up"), c.bias ? &harness.weight("ub") : nullptr),
          std::make_unique<Linear>(harness.weight("down"), c.bias ? &harness.weight("db") : nullptr),
          {.activation = c.activation, .gated = c.gated, .recompute = c.recompute}),
      kHidden);
}

INSTANTIATE_TEST_SUITE_P(Forms, MlpGradients,
                         testing::Values(MlpCase{"gelu", Activation::Gelu},
                                         MlpCase{"gelu_tanh", Activation::GeluTanh},
                                         MlpCase{"silu_no_bias", Activation::Silu, false, false},
                                         MlpCase{"gelu_recompute", Activation::GeluTanh, false, true, true},
                                         MlpCase{"gated_silu", Activation::Silu, true, false},
                                         MlpCase{"gated_gelu_bias", Activation::Gelu, true, true},
                                         MlpCase{"gated_recompute", Activation::Silu, true, false, true}),
                         [](const auto& info) { return info.param.name; });

// A branch with dropout around a small mlp.
std::unique_ptr<Module> small_branch(ModuleHarness& harness, double dropout) {
  return std::make_unique<ResidualBranch>(
      std::make_unique<LayerNorm>(harness.weight("g"), harness.weight("b"), 1e-5),
      std::make_unique<Mlp>(std::make_unique<Linear>(harness.weight("up"), nullptr),
                            std::make_unique<Linear>(harness.weight("down"), nullptr), MlpSettings{}),
      HiddenDropout{.probability = dropout, .key = random_key(1, "branch")});
}

ModuleHarness branch_harness() {
  return ModuleHarness(
      {vector("g", kHidden), vector("b", kHidden), matrix("up", 7, kHidden), matrix("down", kHidden, 7)});
}

TEST(ModuleGradients, ResidualBranch) {
  ModuleHarness harness = branch_harness();
  harness.check(*small_branch(harness, 0), kHidden);
}

TEST(ModuleGradients, ResidualBranchWithDropout) {
  ModuleHarness harness = branch_harness();
  harness.check(*small_branch(harness, 0.4), kHidden);
}

TEST(ModuleGradients, SequentialAndRecompute) {
  ModuleHarness harness = branch_harness();
  std::vector<std::unique_ptr<Module>> modules;
  for (int i = 0; i < 2; ++i) modules.push_back(small_branch(harness, 0.2));
  harness.check(RecomputeModule(std::make_unique<Sequential>(std::move(modules))), kHidden);
}

TEST(ModuleGradients, EmbeddingWithPositionsAndDropout) {
  ModuleHarness harness({matrix("tokens", 11, kHidden), matrix("positions", 7, kHidden)});
  const HiddenDropout dropout{.probability = 0.3, .key = random_key(1, "embedding")};
  harness.check(
      Embedding({.tokens = harness.weight("tokens"), .positions = &harness.weight("positions")}, dropout), 0);
}

TEST(ModuleGradients, LossHead) {
  for (const double smoothing : {0.0, 0.1}) {
    ModuleHarness harness({vector("g", kHidden), matrix("w", 11, kHidden)});
    harness.check(LossHead(std::make_unique<RmsNorm>(harness.weight("g"), 1e-5),
                           std::make_unique<Linear>(harness.weight("w"), nullptr), {.count = 11}, smoothing),
                  kHidden, true);
  }
}

}  // namespace
}  // namespace tessera::test
