// SPDX-License-Identifier: Apache-2.0
#include "models/llama/names.h"

namespace tessera::llama {
namespace {

constexpr NameRule kRules[] = {
    {.ours = "embedding.token", .theirs = "model.embed_tokens"},
    {.ours = "blocks.N.attention_norm", .theirs = "model.layers.N.input_layernorm"},
    {.ours = "blocks.N.attention.query", .theirs = "model.layers.N.self_attn.q_proj"},
    {.ours = "blocks.N.attention.key", .theirs = "model.layers.N.self_attn.k_proj"},
    {.ours = "blocks.N.attention.value", .theirs = "model.layers.N.self_attn.v_proj"},
    {.ours = "blocks.N.attention.query_norm", .theirs = "model.layers.N.self_attn.q_norm"},
    {.ours = "blocks.N.attention.key_norm", .theirs = "model.layers.N.self_attn.k_norm"},
    {.ours = "blocks.N.attention.output", .theirs = "model.layers.N.self_attn.o_proj"},
    {.ours = "blocks.N.mlp_norm", .theirs = "model.layers.N.post_attention_layernorm"},
    {.ours = "blocks.N.mlp.gate", .theirs = "model.layers.N.mlp.gate_proj"},
    {.ours = "blocks.N.mlp.up", .theirs = "model.layers.N.mlp.up_proj"},
    {.ours = "blocks.N.mlp.down", .theirs = "model.layers.N.mlp.down_proj"},
    {.ours = "final_norm", .theirs = "model.norm"},
    {.ours = "output", .theirs = "lm_head"},
};

}  // namespace

std::optional<ForeignTensor> hugging_face_tensor(std::string_view ours) {
  return foreign_tensor(kRules, ours);
}

}  // namespace tessera::llama
