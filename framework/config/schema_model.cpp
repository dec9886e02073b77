// SPDX-License-Identifier: Apache-2.0
#include "framework/config/schema_sections.h"
#include "framework/config/section_builder.h"

namespace tessera::config {
namespace {

using Model = ModelSection;

void add_sizes(SectionBuilder<Model>& model) {
  model
      .key("architecture", &Model::architecture,
           {.presence = Presence::Required,
            .allowed = architectures(),
            .help = "Family of models. It decides the defaults of the keys below."})
      .key("vocab_size", &Model::vocab_size,
           {.presence = Presence::Required,
            .integers = {1, 1 << 30},
            .unit = "tokens",
            .help = "Number of token ids. It may be any number: padding is internal."})
      .key("hidden_size", &Model::hidden_size,
           {.presence = Presence::Required,
            .integers = {1, 1 << 20},
            .aliases = {"n_embd", "d_model"},
            .help = "Width of the residual stream."})
      .key("intermediate_size", &Model::intermediate_size,
           {.presence = Presence::Derived,
            .integers = {1, 1 << 22},
            .default_text = "gpt: 4 * hidden_size; llama: required",
            .aliases = {"ffn_hidden_size", "n_inner"},
            .help = "Width of the MLP; of each of its two inputs when it is gated."})
      .key("num_hidden_layers", &Model::num_hidden_layers,
           {.presence = Presence::Required,
            .integers = {1, 10'000},
            .aliases = {"num_layers", "n_layer", "n_layers"},
            .help = "Number of transformer blocks."})
      .key("num_attention_heads", &Model::num_attention_heads,
           {.presence = Presence::Required,
            .integers = {1, 1 << 16},
            .aliases = {"n_head", "n_heads", "num_heads"},
            .help = "Number of query heads."})
      .key("num_key_value_heads", &Model::num_key_value_heads,
           {.presence = Presence::Derived,
            .integers = {1, 1 << 16},
            .default_text = "num_attention_heads",
            .aliases = {"num_query_groups", "n_kv_heads", "num_kv_heads"},
            .help = "Number of key and value heads; it must divide num_attention_heads."})
      .key("head_dim", &Model::head_dim,
           {.presence = Presence::Derived,
            .integers = {1, 1 << 16},
            .default_text = "hidden_size / num_attention_heads",
            .aliases = {"kv_channels"},
            .help = "Width of one head."})
      .key("max_position_embeddings", &Model::max_position_embeddings,
           {.presence = Presence::Derived,
            .integers = {1, kLongestSequence},
            .unit = "tokens",
            .default_text = "train.seq_length",
            .aliases = {"n_positions", "n_ctx"},
            .help = "Rows of the learned position table, and the longest text that generation makes."});
}

void add_form(SectionBuilder<Model>& model) {
  using Activation = Model::Activation;
  using Norm = Model::Norm;
  using Position = Model::Position;
  model
      .choice("hidden_act", &Model::hidden_act,
              {{"gelu", Activation::Gelu}, {"gelu_new", Activation::GeluNew}, {"silu", Activation::Silu}},
              {.aliases = {"activation_function"},
               .help = "Activation of the MLP: gelu is the exact form, gelu_new the tanh form of GPT-2."})
      .key("mlp_gated", &Model::mlp_gated,
           {.help = "Whether the MLP multiplies its activation by a second projection (SwiGLU with silu)."})
      .choice("norm", &Model::norm, {{"layernorm", Norm::LayerNorm}, {"rmsnorm", Norm::RmsNorm}},
              {.help = "Normalisation before attention, before the MLP and at the end."})
      .key("norm_eps", &Model::norm_eps,
           {.reals = {.min = 0, .max = 1, .above_min = true},
            .aliases = {"layernorm_epsilon", "layer_norm_epsilon", "rms_norm_eps", "norm_epsilon"},
            .help = "Added to the variance before the root."})
      .choice("position", &Model::position,
              {{"learned", Position::Learned}, {"rope", Position::Rope}, {"none", Position::None}},
              {.help = "How positions enter: a learned table, rotation of queries and keys, or not at all."})
      .key("attention_bias", &Model::attention_bias,
           {.aliases = {"add_qkv_bias"}, .help = "Biases of the four attention projections."})
      .key("mlp_bias", &Model::mlp_bias, {.help = "Biases of the MLP projections."})
      .key("tie_word_embeddings", &Model::tie_word_embeddings,
           {.help = "Whether the output projection is the token embedding."})
      .key("qk_norm", &Model::qk_norm,
           {.aliases = {"qk_layernorm"}, .help = "Normalise each query and key head before the product."})
      .key("sliding_window", &Model::sliding_window,
           {.presence = Presence::Optional,
            .integers = {1, kLongestSequence},
            .unit = "tokens",
            .default_text = "absent: all before it",
            .help = "How many tokens a token sees, itself included."});
}

void add_training_form(SectionBuilder<Model>& model) {
  model
      .key("initializer_range", &Model::initializer_range,
           {.reals = {.min = 0, .max = 10},
            .aliases = {"init_method_std"},
            .help = "Standard deviation of the initial weights."})
      .key("attention_dropout", &Model::attention_dropout,
           {.reals = {.min = 0, .max = 1, .below_max = true},
            .aliases = {"attn_pdrop"},
            .help = "Share of attention weights dropped in training."})
      .key("hidden_dropout", &Model::hidden_dropout,
           {.reals = {.min = 0, .max = 1, .below_max = true},
            .aliases = {"resid_pdrop"},
            .help = "Share of each branch's output, and of the embedding, dropped in training."})
      .later("layers", "Pattern of block kinds.")
      .later("from_zoo", "Name of a published model whose keys are taken.");
}

Section rope_section() {
  SectionBuilder<RopeSection> rope("model.rope", "Rotary embedding; used when model.position is \"rope\".",
                                   [](RunConfig& c, size_t) -> RopeSection& { return c.model.rope; });
  rope.key("theta", &RopeSection::theta,
           {.reals = {.min = 1, .max = 1e12, .above_min = true},
            .aliases = {"rope_theta", "rotary_base"},
            .help = "Base of the rotation frequencies."})
      .key("partial_rotary_factor", &RopeSection::partial_rotary_factor,
           {.reals = {.min = 0, .max = 1, .above_min = true},
            .aliases = {"rotary_percent", "rotary_pct"},
            .help = "Share of each head that rotates; head_dim times it must be even."});
  return rope.build();
}

Section scaling_section() {
  using Type = RopeScaling::Type;
  SectionBuilder<RopeScaling> scaling(
      "model.rope.scaling", "Stretches the rotary embedding over a longer context; absent: no scaling.",
      [](RunConfig& c, size_t) -> RopeScaling& { return *c.model.rope.scaling; });
  const RealRange beta = {.min = 0, .max = 1e6, .above_min = true};
  scaling
      .elements(
          Section::Kind::OptionalTable,
          [](RunConfig& c) { return c.model.rope.scaling ? size_t{1} : size_t{0}; },
          [](RunConfig& c) { c.model.rope.scaling.emplace(); })
      .choice("type", &RopeScaling::type,
              {{"linear", Type::Linear}, {"llama3", Type::Llama3}, {"yarn", Type::Yarn}},
              {.presence = Presence::Required, .aliases = {"rope_type"}, .help = "The rule."})
      .key("factor", &RopeScaling::factor,
           {.presence = Presence::Required,
            .reals = {.min = 1, .max = 1e6},
            .help = "How many times longer the context becomes."})
      .key("original_max_position_embeddings", &RopeScaling::original_max_position_embeddings,
           {.presence = Presence::Derived,
            .integers = {1, kLongestSequence},
            .unit = "tokens",
            .default_text = "llama3, yarn: required; linear: not used",
            .help = "Context length before the scaling."})
      .key("low_freq_factor", &RopeScaling::low_freq_factor,
           {.reals = beta, .help = "llama3: wavelengths above original length / this are scaled whole."})
      .key("high_freq_factor", &RopeScaling::high_freq_factor,
           {.reals = beta, .help = "llama3: wavelengths below original length / this are left alone."})
      .key("beta_fast", &RopeScaling::beta_fast,
           {.reals = beta, .help = "yarn: dimensions that turn more often than this are left alone."})
      .key("beta_slow", &RopeScaling::beta_slow,
           {.reals = beta, .help = "yarn: dimensions that turn less often than this are scaled whole."})
      .key("attention_factor", &RopeScaling::attention_factor,
           {.presence = Presence::Derived,
            .reals = {.min = 0, .max = 1e3, .above_min = true},
            .default_text = "yarn: 0.1 ln(factor) + 1",
            .help = "yarn: multiplies the rotated queries and keys."});
  return scaling.build();
}

}  // namespace

void add_model_sections(std::vector<Section>& sections) {
  SectionBuilder<Model> model("model",
                              "What is trained. The keys have the names of a Hugging Face config.json.",
                              [](RunConfig& c, size_t) -> Model& { return c.model; });
  add_sizes(model);
  add_form(model);
  add_training_form(model);
  sections.push_back(model.build());
  sections.push_back(rope_section());
  sections.push_back(scaling_section());
  sections.push_back(later_section(
      "model.moe", "Mixture of experts.",
      {"num_experts", "num_experts_per_tok", "moe_intermediate_size", "n_shared_experts", "score_func",
       "norm_topk_prob", "routed_scaling_factor", "n_group", "topk_group", "aux_loss_coef", "aux_loss_type",
       "z_loss_coef", "bias_update_rate", "capacity_factor", "drop_policy", "jitter_eps"}));
  sections.push_back(
      later_section("model.mla", "Multi-head latent attention.",
                    {"q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"}));
  sections.push_back(later_section("model.mtp", "Multi-token prediction.", {"num_layers", "coef"}));
}

}  // namespace tessera::config
