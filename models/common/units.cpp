// SPDX-License-Identifier: Apache-2.0
#include "models/common/units.h"

#include "framework/nn/attention.h"
#include "framework/nn/loss_head.h"
#include "framework/nn/mlp.h"
#include "framework/nn/recompute.h"
#include "framework/parallel/sequence/sequence_attention.h"
#include "framework/parallel/tensor/embedding.h"
#include "framework/parallel/tensor/linear.h"
#include "framework/parallel/tensor/vocabulary.h"

namespace tessera {

std::unique_ptr<Module> UnitBuilder::embedding() const {
  const Embedding::Tables tables{
      .tokens = store_.weight("embedding.token.weight"),
      .first_token = store_.at("embedding.token.weight").box.offset[0],
      .positions = optional_weight(config_.learned_positions > 0, "embedding.position.weight")};
  return std::make_unique<Embedding>(tables, dropout("embedding.dropout"), boundary());
}

std::unique_ptr<Module> UnitBuilder::block(int64_t index) const {
  const std::string name = fmt::format("blocks.{}", index);
  std::vector<std::unique_ptr<Module>> branches;
  branches.push_back(std::make_unique<ResidualBranch>(norm(name + ".attention_norm"),
                                                      attention(index, name + ".attention"),
                                                      dropout(name + ".attention.dropout")));
  branches.push_back(std::make_unique<ResidualBranch>(norm(name + ".mlp_norm"), mlp(name + ".mlp"),
                                                      dropout(name + ".mlp.dropout")));
  auto block = std::make_unique<Sequential>(std::move(branches));
  if (!options_.recompute.block) return block;
  return std::make_unique<RecomputeModule>(std::move(block));
}

std::unique_ptr<Module> UnitBuilder::head() const {
  const std::string output = config_.tied ? "embedding.token.weight" : "output.weight";
  LossClasses classes{.count = config_.vocab_size, .first = store_.at(output).box.offset[0]};
  if (Communicator* group = options_.groups.tensor; boundary().ranks() > 1)
    classes.combine_statistics = [group](const Tensor& statistics, Context& context) {
      combine_statistics(statistics, *group, context);
    };
  auto logits = std::make_unique<ColumnLinear>(store_.weight(output), nullptr, boundary(),
                                               options_.groups.regather_inputs);
  return std::make_unique<LossHead>(norm("final_norm"), std::move(logits), std::move(classes),
                                    config_.label_smoothing);
}

std::unique_ptr<Norm> UnitBuilder::norm(const std::string& name) const {
  const Weight& gain = store_.weight(name + ".weight");
  if (config_.rms_norm) return std::make_unique<RmsNorm>(gain, config_.norm_epsilon);
  return std::make_unique<LayerNorm>(gain, store_.weight(name + ".bias"), config_.norm_epsilon);
}

std::unique_ptr<BranchBody> UnitBuilder::attention(int64_t index, const std::string& name) const {
  const Box& queries = store_.at(name + ".query.weight").box;
  const SelfAttentionSettings settings{
      .attention = {.share = {.heads = queries.extent[0] / config_.head_dim,
                              .head_dim = config_.head_dim,
                              .group = config_.heads / config_.kv_heads,
                              .first_head = queries.offset[0] / config_.head_dim},
                    .window = config_.window,
                    .dropout = config_.attention_dropout,
                    .dropout_key = random_key(options_.seed, name + ".probabilities.dropout")},
      .norm_epsilon = config_.norm_epsilon,
      .rope_table = config_.rotary ? rope_table() : Tensor(),
      .recompute = options_.recompute.attention,
      .block = static_cast<size_t>(index),
  };
  SelfAttentionParts parts{
      .qkv = column(name + ".qkv", config_.attention_bias),
      .core = core(settings.attention),
      .output = row(name + ".output", config_.attention_bias),
      .query_norm = optional_weight(config_.query_key_norm, name + ".query_norm.weight"),
      .key_norm = optional_weight(config_.query_key_norm, name + ".key_norm.weight"),
  };
  return std::make_unique<SelfAttention>(std::move(parts), settings);
}

std::unique_ptr<BranchBody> UnitBuilder::mlp(const std::string& name) const {
  return std::make_unique<Mlp>(column(name + (config_.mlp_gated ? ".gate_up" : ".up"), config_.mlp_bias),
                               row(name + ".down", config_.mlp_bias),
                               MlpSettings{
                                   .activation = config_.activation,
                                   .gated = config_.mlp_gated,
                                   .recompute = options_.recompute.mlp_activation,
                               });
}

std::unique_ptr<AttentionCore> UnitBuilder::core(const AttentionSettings& settings) const {
  Communicator* const group = options_.groups.sequence;
  if (group == nullptr || group->size() == 1) return std::make_unique<LocalAttention>(settings);
  return make_sequence_attention(options_.groups.sequence_mode, *group, settings);
}

Boundary UnitBuilder::boundary() const {
  return {options_.groups.tensor, options_.groups.sequence_parallel};
}

std::unique_ptr<Projection> UnitBuilder::column(const std::string& name, bool bias) const {
  return std::make_unique<ColumnLinear>(store_.weight(name + ".weight"),
                                        optional_weight(bias, name + ".bias"), boundary(),
                                        options_.groups.regather_inputs);
}

std::unique_ptr<Projection> UnitBuilder::row(const std::string& name, bool bias) const {
  return std::make_unique<RowLinear>(store_.weight(name + ".weight"), optional_weight(bias, name + ".bias"),
                                     boundary());
}

HiddenDropout UnitBuilder::dropout(const std::string& purpose) const {
  return {.probability = config_.hidden_dropout, .key = random_key(options_.seed, purpose)};
}

const Weight* UnitBuilder::optional_weight(bool present, const std::string& name) const {
  return present ? &store_.weight(name) : nullptr;
}

// All blocks turn by the same angles.
Tensor UnitBuilder::rope_table() const {
  const auto make = [&] {
    return tessera::rope_table(options_.backend, config_.rope, options_.sequence_length, options_.compute);
  };
  if (options_.constants == nullptr) return make();
  Tensor& shared = (*options_.constants)["rope"];
  if (!shared.defined()) shared = make();
  return shared;
}

}  // namespace tessera
