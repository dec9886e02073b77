// SPDX-License-Identifier: Apache-2.0
// The table of a decoder's parameters. Cuts along the tensor axis follow Megatron-LM (Shoeybi et al. 2019):
// projections into a branch by output rows, projections out of it by input columns, the vocabulary by rows.
#include "models/common/decoder.h"

namespace tessera {
namespace {

ShardSpec whole() {
  return {};
}
// Rows or columns over the tensor axis, on multiples of `multiple`.
ShardSpec cut(int dim, int64_t multiple = 1) {
  return {.splits = {{.dim = dim, .axis = Axis::Tensor, .multiple = multiple}}};
}

// Key heads follow the query heads that use them: two ranks may hold the same.
ShardSpec cut_with(int64_t head_dim, int64_t query_heads) {
  return {.splits = {{.dim = 0, .axis = Axis::Tensor, .multiple = head_dim, .users = query_heads}}};
}

class Table {
 public:
  explicit Table(const DecoderConfig& config) : config_(config) {}

  void add_embedding();
  void add_block(int64_t block);
  void add_head();
  std::vector<ParameterSpec> take() { return std::move(specs_); }

 private:
  void add(const std::string& name, Shape shape, Role role, const ShardSpec& shard, double std = 0,
           const std::string& fused = {});
  void add_norm(const std::string& name);
  void add_attention(const std::string& name);
  void add_mlp(const std::string& name);
  ShardSpec replicated() const;

  const DecoderConfig& config_;
  int unit_ = 0;
  std::vector<ParameterSpec> specs_;
};

void Table::add(const std::string& name, Shape shape, Role role, const ShardSpec& shard, double std,
                const std::string& fused) {
  Init init{.kind = Init::Kind::Normal, .std = std};
  if (role == Role::Norm && name.ends_with(".weight")) init = {.kind = Init::Kind::Ones};
  if (name.ends_with(".bias")) init = {.kind = Init::Kind::Zeros};
  specs_.push_back({.name = name,
                    .shape = shape,
                    .role = role,
                    .init = init,
                    .shard = shard,
                    .unit = unit_,
                    .fused = fused});
}

// Where sequence parallelism cuts the activations, each tensor rank sees some of the tokens only.
ShardSpec Table::replicated() const {
  ShardSpec spec = whole();
  if (config_.sequence_parallel) spec.partial_gradient = {Axis::Data, Axis::Sequence, Axis::Tensor};
  return spec;
}

void Table::add_norm(const std::string& name) {
  add(name + ".weight", {config_.hidden_size}, Role::Norm, replicated());
  if (!config_.rms_norm) add(name + ".bias", {config_.hidden_size}, Role::Norm, replicated());
}

void Table::add_embedding() {
  add("embedding.token.weight", {config_.vocab_size, config_.hidden_size}, Role::Embedding, cut(0),
      config_.initial_std);
  if (config_.learned_positions > 0)
    add("embedding.position.weight", {config_.learned_positions, config_.hidden_size}, Role::Embedding,
        replicated(), config_.initial_std);
}

void Table::add_attention(const std::string& name) {
  const int64_t head = config_.head_dim, queries = config_.heads * head, keys = config_.kv_heads * head;
  struct Part {
    const char* name;
    int64_t rows;
    ShardSpec shard;
  };
  const Part parts[] = {{".query", queries, cut(0, head)},
                        {".key", keys, cut_with(head, config_.heads)},
                        {".value", keys, cut_with(head, config_.heads)}};
  for (const Part& part : parts)
    add(name + part.name + ".weight", {part.rows, config_.hidden_size}, Role::Matrix, part.shard,
        config_.initial_std, name + ".qkv.weight");
  if (config_.attention_bias)
    for (const Part& part : parts)
      add(name + part.name + ".bias", {part.rows}, Role::Bias, part.shard, 0, name + ".qkv.bias");
  if (config_.query_key_norm) {
    // One gain for heads that lie on different ranks: each rank holds a term of its gradient.
    ShardSpec per_head = whole();
    per_head.partial_gradient = {Axis::Data, Axis::Sequence, Axis::Tensor};
    add(name + ".query_norm.weight", {head}, Role::Norm, per_head);
    add(name + ".key_norm.weight", {head}, Role::Norm, per_head);
  }
  add(name + ".output.weight", {config_.hidden_size, queries}, Role::Matrix, cut(1, head),
      config_.residual_initial_std);
  if (config_.attention_bias) add(name + ".output.bias", {config_.hidden_size}, Role::Bias, replicated());
}

void Table::add_mlp(const std::string& name) {
  const int64_t inner = config_.intermediate_size;
  std::vector<std::string> inputs = {".up"};
  if (config_.mlp_gated) inputs = {".gate", ".up"};
  const std::string mark = config_.mlp_gated ? name + ".gate_up" : "";
  for (const std::string& part : inputs)
    add(name + part + ".weight", {inner, config_.hidden_size}, Role::Matrix, cut(0), config_.initial_std,
        mark.empty() ? "" : mark + ".weight");
  if (config_.mlp_bias)
    for (const std::string& part : inputs)
      add(name + part + ".bias", {inner}, Role::Bias, cut(0), 0, mark.empty() ? "" : mark + ".bias");
  add(name + ".down.weight", {config_.hidden_size, inner}, Role::Matrix, cut(1),
      config_.residual_initial_std);
  if (config_.mlp_bias) add(name + ".down.bias", {config_.hidden_size}, Role::Bias, replicated());
}

void Table::add_block(int64_t block) {
  ++unit_;
  const std::string name = fmt::format("blocks.{}", block);
  add_norm(name + ".attention_norm");
  add_attention(name + ".attention");
  add_norm(name + ".mlp_norm");
  add_mlp(name + ".mlp");
}

void Table::add_head() {
  ++unit_;
  add_norm("final_norm");
  if (config_.tied)
    specs_.front().second_unit = unit_;  // the token table
  else
    add("output.weight", {config_.vocab_size, config_.hidden_size}, Role::Matrix, cut(0),
        config_.initial_std);
}

}  // namespace

std::vector<ParameterSpec> decoder_parameters(const DecoderConfig& config) {
  Table table(config);
  table.add_embedding();
  for (int64_t block = 0; block < config.layers; ++block) table.add_block(block);
  table.add_head();
  return table.take();
}

}  // namespace tessera
