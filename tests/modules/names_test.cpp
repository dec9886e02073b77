// SPDX-License-Identifier: Apache-2.0
// Every parameter has a place of its own in a Hugging Face checkpoint.
#include "models/gpt/names.h"

#include <gtest/gtest.h>

#include <set>
#include <tuple>

#include "models/llama/names.h"
#include "models/registry.h"
#include "tests/support/tiny_model.h"

namespace tessera::test {
namespace {

using Lookup = std::optional<ForeignTensor> (*)(std::string_view);

void expect_places_differ(const RunConfig& config, Lookup lookup) {
  std::set<std::tuple<std::string, int64_t>> places;
  for (const ParameterSpec& spec : define_model(config).parameters) {
    const std::optional<ForeignTensor> place = lookup(spec.name);
    ASSERT_TRUE(place.has_value()) << spec.name;
    EXPECT_TRUE(places.emplace(place->name, place->part).second)
        << spec.name << " and another: " << place->name;
    EXPECT_LT(place->part, place->parts);
    EXPECT_FALSE(place->transposed && spec.shape.rank() != 2) << spec.name;
  }
}

TEST(HuggingFaceNames, OnePlaceForEachParameter) {
  RunConfig gpt = tiny_gpt(), llama = tiny_llama();
  gpt.model.tie_word_embeddings = false;
  gpt.model.num_hidden_layers = llama.model.num_hidden_layers = 12;
  llama.model.qk_norm = llama.model.attention_bias = llama.model.mlp_bias = true;
  expect_places_differ(gpt, gpt::hugging_face_tensor);
  expect_places_differ(llama, llama::hugging_face_tensor);
}

TEST(HuggingFaceNames, AreThoseOfThePublishedFiles) {
  const auto key = gpt::hugging_face_tensor("blocks.11.attention.key.weight");
  EXPECT_EQ(key,
            (ForeignTensor{.name = "h.11.attn.c_attn.weight", .transposed = true, .part = 1, .parts = 3}));
  const auto bias = gpt::hugging_face_tensor("blocks.0.mlp.up.bias");
  EXPECT_EQ(bias, (ForeignTensor{.name = "h.0.mlp.c_fc.bias"}));
  EXPECT_EQ(llama::hugging_face_tensor("blocks.7.mlp_norm.weight")->name,
            "model.layers.7.post_attention_layernorm.weight");
  EXPECT_EQ(llama::hugging_face_tensor("output.weight")->name, "lm_head.weight");
}

TEST(HuggingFaceNames, UnknownNamesHaveNone) {
  for (const char* name : {"", "weight", "blocks.N.mlp.up.weight", "blocks..mlp.up.weight", "blocks.1.mlp.up",
                           "blocks.1.mlp.gate.weight", "final_norm.gain", "blocks.1"})
    EXPECT_FALSE(gpt::hugging_face_tensor(name).has_value()) << name;
}

}  // namespace
}  // namespace tessera::test
