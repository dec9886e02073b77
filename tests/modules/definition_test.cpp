// SPDX-License-Identifier: Apache-2.0
// What a model declares: names, shapes, roles, initial values, cuts; and what its blocks keep for backward.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "framework/backends/cpu/cpu_backend.h"
#include "framework/backends/shape/shape_backend.h"
#include "framework/ops/memory.h"
#include "models/registry.h"
#include "tests/support/batch.h"
#include "tests/support/tiny_model.h"

namespace tessera::test {
namespace {

const ParameterSpec& find(const ModelDefinition& definition, const std::string& name) {
  for (const ParameterSpec& spec : definition.parameters)
    if (spec.name == name) return spec;
  fail(ExitCode::Communication, "no parameter {}", name);
}

TEST(Registry, UnknownArchitectureIsAUsageError) {
  RunConfig config = tiny_gpt();
  config.model.architecture = "lama";
  try {
    define_model(config);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::Usage);
    EXPECT_NE(std::string(error.what()).find("llama"), std::string::npos) << error.what();
  }
}

TEST(Definition, GptDeclaresTheTableOfTheDocs) {
  const ModelDefinition definition = define_model(tiny_gpt());
  std::vector<std::string> names;
  for (const ParameterSpec& spec : definition.parameters)
    if (spec.name.find("blocks.1") == std::string::npos)
      names.push_back(spec.name + spec.shape.to_string() + std::string(name_of(spec.role)) +
                      std::to_string(spec.unit));
  const std::vector<std::string> expected = {
      "embedding.token.weight[11, 15]embedding0",
      "embedding.position.weight[9, 15]embedding0",
      "blocks.0.attention_norm.weight[15]norm1",
      "blocks.0.attention_norm.bias[15]norm1",
      "blocks.0.attention.query.weight[18, 15]matrix1",
      "blocks.0.attention.key.weight[18, 15]matrix1",
      "blocks.0.attention.value.weight[18, 15]matrix1",
      "blocks.0.attention.query.bias[18]bias1",
      "blocks.0.attention.key.bias[18]bias1",
      "blocks.0.attention.value.bias[18]bias1",
      "blocks.0.attention.output.weight[15, 18]matrix1",
      "blocks.0.attention.output.bias[15]bias1",
      "blocks.0.mlp_norm.weight[15]norm1",
      "blocks.0.mlp_norm.bias[15]norm1",
      "blocks.0.mlp.up.weight[14, 15]matrix1",
      "blocks.0.mlp.up.bias[14]bias1",
      "blocks.0.mlp.down.weight[15, 14]matrix1",
      "blocks.0.mlp.down.bias[15]bias1",
      "final_norm.weight[15]norm3",
      "final_norm.bias[15]norm3",
  };
  EXPECT_EQ(names, expected);
  EXPECT_EQ(definition.unit_names, (std::vector<std::string>{"embedding", "blocks.0", "blocks.1", "head"}));
  EXPECT_EQ(definition.vocab_size, 11);
  EXPECT_EQ(definition.kv_width, 18);
}

TEST(Definition, LlamaDeclaresTheTableOfTheDocs) {
  RunConfig config = tiny_llama();
  config.model.qk_norm = true;
  const ModelDefinition definition = define_model(config);
  std::vector<std::string> names;
  for (const ParameterSpec& spec : definition.parameters)
    if (spec.name.find("blocks.0") == std::string::npos) names.push_back(spec.name + spec.shape.to_string());
  const std::vector<std::string> expected = {
      "embedding.token.weight[11, 15]",
      "blocks.1.attention_norm.weight[15]",
      "blocks.1.attention.query.weight[18, 15]",
      "blocks.1.attention.key.weight[6, 15]",
      "blocks.1.attention.value.weight[6, 15]",
      "blocks.1.attention.query_norm.weight[6]",
      "blocks.1.attention.key_norm.weight[6]",
      "blocks.1.attention.output.weight[15, 18]",
      "blocks.1.mlp_norm.weight[15]",
      "blocks.1.mlp.gate.weight[14, 15]",
      "blocks.1.mlp.up.weight[14, 15]",
      "blocks.1.mlp.down.weight[15, 14]",
      "final_norm.weight[15]",
      "output.weight[11, 15]",
  };
  EXPECT_EQ(names, expected);
  EXPECT_EQ(find(definition, "output.weight").unit, 3);
  EXPECT_EQ(find(definition, "output.weight").role, Role::Matrix);
  EXPECT_EQ(definition.kv_width, 6);
}

TEST(Definition, InitialValuesFollowTheFamily) {
  const double std = 0.02;
  const ModelDefinition gpt = define_model(tiny_gpt()), llama = define_model(tiny_llama());
  for (const char* name : {"blocks.1.attention.output.weight", "blocks.1.mlp.down.weight"}) {
    EXPECT_DOUBLE_EQ(find(gpt, name).init.std, std / 2) << "1 / sqrt(2 * 2 layers)";
    EXPECT_DOUBLE_EQ(find(llama, name).init.std, std);
  }
  for (const ModelDefinition* definition : {&gpt, &llama})
    for (const ParameterSpec& spec : definition->parameters) {
      const bool vector = spec.shape.rank() == 1;
      EXPECT_EQ(spec.init.kind == Init::Kind::Normal, !vector) << spec.name;
      EXPECT_EQ(spec.init.kind == Init::Kind::Ones, spec.name.ends_with("norm.weight")) << spec.name;
    }
}

// The cuts of a tensor axis of two, and who holds a term of a gradient's sum.
TEST(Definition, CutsAlongTheTensorAxis) {
  RunConfig config = tiny_llama();
  config.model.num_attention_heads = 4;
  config.model.num_key_value_heads = 2;
  config.model.qk_norm = true;
  const ModelDefinition definition = define_model(config);
  const Mesh mesh({{Axis::Tensor, 2}});
  const auto extent = [&](const std::string& name) {
    const ParameterSpec& spec = find(definition, name);
    return local_box(spec.shape, spec.shard, mesh, 0).extent;
  };
  using Extent = std::vector<int64_t>;
  EXPECT_EQ(extent("embedding.token.weight"), (Extent{6, 15}));
  EXPECT_EQ(extent("output.weight"), (Extent{6, 15}));
  EXPECT_EQ(extent("blocks.0.attention.query.weight"), (Extent{12, 15}));
  EXPECT_EQ(extent("blocks.0.attention.key.weight"), (Extent{6, 15}));
  EXPECT_EQ(extent("blocks.0.attention.output.weight"), (Extent{15, 12}));
  EXPECT_EQ(extent("blocks.0.mlp.gate.weight"), (Extent{7, 15}));
  EXPECT_EQ(extent("blocks.0.mlp.down.weight"), (Extent{15, 7}));
  EXPECT_EQ(extent("final_norm.weight"), (Extent{15}));
  for (const ParameterSpec& spec : definition.parameters) {
    const bool shared_by_heads =
        spec.name.ends_with("query_norm.weight") || spec.name.ends_with("key_norm.weight");
    EXPECT_EQ(spec.shard.partial_gradient.contains(Axis::Tensor), shared_by_heads) << spec.name;
    EXPECT_TRUE(spec.shard.partial_gradient.contains(Axis::Data)) << spec.name;
  }
  config.parallel.sequence_parallel = true;
  for (const ParameterSpec& spec : define_model(config).parameters)
    EXPECT_EQ(spec.shard.partial_gradient.contains(Axis::Tensor), spec.shard.splits.empty()) << spec.name;
}

// What a block keeps for its backward, in bytes: the two inputs of its norms, never the norms' outputs.
int64_t block_bytes(RunConfig config, const Recompute& recompute) {
  const auto backend = make_shape_backend();
  TinyModel model(*backend, config, {.compute = DType::F32, .recompute = recompute, .spread = 0});
  model.forward(make_batch(*backend, {.rows = {some_tokens(7, 11, 1)}}));
  return model.saved_bytes(1);
}

TEST(Definition, SavedBytesOfABlock) {
  constexpr int64_t n = 7, hidden = 15, inner = 14, q = 18, heads = 3;
  constexpr int64_t kv = 6;
  const auto bytes = [](int64_t elements) { return 4 * n * elements; };
  // Two norm inputs, mean and deviation of both; q, k, v, y, log-sum-exp; activation and derivative.
  const int64_t norms = 2 * hidden + 4;
  EXPECT_EQ(block_bytes(tiny_gpt(), {}), bytes(norms + 3 * q + q + heads + 2 * inner));
  EXPECT_EQ(block_bytes(tiny_gpt(), {.attention = true}), bytes(norms + 3 * q + 2 * inner));
  EXPECT_EQ(block_bytes(tiny_gpt(), {.mlp_activation = true}), bytes(norms + 3 * q + q + heads + inner));
  EXPECT_EQ(block_bytes(tiny_gpt(), {.attention = true, .mlp_activation = true}),
            bytes(norms + 3 * q + inner));
  EXPECT_EQ(block_bytes(tiny_gpt(), {.block = true}), bytes(hidden));
  // One statistic a norm; gate, up and their product.
  const int64_t kept = 2 * hidden + 2 + (q + 2 * kv);
  EXPECT_EQ(block_bytes(tiny_llama(), {}), bytes(kept + q + heads + 3 * inner));
  EXPECT_EQ(block_bytes(tiny_llama(), {.attention = true}), bytes(kept + 3 * inner));
  EXPECT_EQ(block_bytes(tiny_llama(), {.mlp_activation = true}), bytes(kept + q + heads + 2 * inner));
  EXPECT_EQ(block_bytes(tiny_llama(), {.block = true}), bytes(hidden));
}

TEST(Definition, BlocksShareOneTableOfAngles) {
  const auto backend = make_cpu_backend(1);
  const ModelDefinition definition = define_model(tiny_llama());
  ParameterStore store(definition.parameters, Mesh({{Axis::Tensor, 1}}), 0);
  Constants constants;
  const UnitOptions options{.backend = *backend,
                            .compute = DType::F32,
                            .sequence_length = 1003,
                            .seed = 1,
                            .constants = &constants};
  const int64_t before = backend->allocator().live_bytes();
  std::vector<std::unique_ptr<Module>> units;
  for (int unit = 0; unit < definition.unit_count(); ++unit)
    units.push_back(definition.build_unit(unit, store, options));
  EXPECT_EQ(backend->allocator().live_bytes() - before, Allocator::rounded(1003 * 6 * 4));
}

}  // namespace
}  // namespace tessera::test
