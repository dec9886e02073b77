// SPDX-License-Identifier: Apache-2.0
#include "models/gpt/names.h"

namespace tessera::gpt {
namespace {

constexpr NameRule kRules[] = {
    {.ours = "embedding.token", .theirs = "wte"},
    {.ours = "embedding.position", .theirs = "wpe"},
    {.ours = "blocks.N.attention_norm", .theirs = "h.N.ln_1"},
    {.ours = "blocks.N.attention.query", .theirs = "h.N.attn.c_attn", .transposed = true, .parts = 3},
    {.ours = "blocks.N.attention.key",
     .theirs = "h.N.attn.c_attn",
     .transposed = true,
     .part = 1,
     .parts = 3},
    {.ours = "blocks.N.attention.value",
     .theirs = "h.N.attn.c_attn",
     .transposed = true,
     .part = 2,
     .parts = 3},
    {.ours = "blocks.N.attention.output", .theirs = "h.N.attn.c_proj", .transposed = true},
    {.ours = "blocks.N.mlp_norm", .theirs = "h.N.ln_2"},
    {.ours = "blocks.N.mlp.up", .theirs = "h.N.mlp.c_fc", .transposed = true},
    {.ours = "blocks.N.mlp.down", .theirs = "h.N.mlp.c_proj", .transposed = true},
    {.ours = "final_norm", .theirs = "ln_f"},
    {.ours = "output", .theirs = "lm_head"},
};

}  // namespace

std::optional<ForeignTensor> hugging_face_tensor(std::string_view ours) {
  return foreign_tensor(kRules, ours);
}

}  // namespace tessera::gpt
