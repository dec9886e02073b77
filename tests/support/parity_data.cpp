// SPDX-License-Identifier: Apache-2.0
#include "tests/support/parity_data.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "framework/dataset/token_file_writer.h"
#include "tests/support/scratch_folder.h"

namespace tessera::test {

namespace fs = std::filesystem;

Keys operator+(Keys a, const Keys& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Documents of 1 to 200 tokens with ids up to the odd vocabulary's last, made once for the whole program.
const Keys& varlen() {
  static const Keys keys = [] {
    static const ScratchFolder folder;
    const std::filesystem::path prefix = folder / "varlen";
    TokenFileWriter writer(prefix, "bytes", 1003);
    const RandomKey key = random_key(7, "varlen");
    uint64_t at = 0;
    for (int document = 0; document < 80; ++document) {
      std::vector<int32_t> tokens(1 + philox(key, at++)[0] % 200);
      for (int32_t& token : tokens) {
        // Squares make some ids frequent, as in text, so that there is something to learn.
        const uint64_t draw = philox(key, at++)[0] % 1003;
        token = static_cast<int32_t>(draw * draw / 1003);
      }
      writer.add(tokens);
      writer.end_document();
    }
    writer.finish();
    return Keys{"data.sources=[{path=\"" + prefix.string() + "\"}]"};
  }();
  return keys;
}

// About 30 % of the targets stay, chosen by logical position; one row of each batch loses all.
void thin_out(int step, DataFeed::GlobalBatch& global) {
  const RandomKey key = random_key(static_cast<uint64_t>(step), "thin out");
  for (HostBatch& batch : global.microbatches)
    for (size_t i = 0; i < batch.weights.size(); ++i) {
      const bool whole_row = batch.token_index[i] / batch.length == 3;
      if (whole_row || philox(key, static_cast<uint64_t>(batch.token_index[i]))[0] % 10 >= 3)
        batch.weights[i] = 0;
    }
}

void expect_parity(const RunRecord& run, const RunRecord& reference, const std::string& what) {
  for (const auto& [name, values] : reference.initial)
    EXPECT_EQ(run.initial.at(name), values) << what << ": " << name;
  expect_close_gradients(run, reference, 1e-5, what);
  ASSERT_EQ(run.losses.size(), reference.losses.size());
  for (size_t i = 0; i < run.losses.size(); ++i) {
    EXPECT_NEAR(run.losses[i], reference.losses[i], 1e-5 * std::abs(reference.losses[i]))
        << what << ", step " << i + 1;
    EXPECT_EQ(run.tokens[i], reference.tokens[i]) << what;
  }
  EXPECT_NEAR(run.norms[0], reference.norms[0], 1e-6 * reference.norms[0]) << what;
}

Keys odd_model(const std::string& family, int layers) {
  const Keys common = varlen() + Keys{"model.num_hidden_layers=" + std::to_string(layers),
                                      "train.seq_length=37",
                                      "model.num_attention_heads=12",
                                      "model.num_key_value_heads=2",
                                      "model.hidden_dropout=0.1",
                                      "model.attention_dropout=0.1"};
  if (family == "gpt")
    return common +
           Keys{"model.architecture=gpt", "model.hidden_size=60", "model.max_position_embeddings=37"};
  return common + Keys{"model.hidden_size=72", "model.qk_norm=true"};
}

std::ostream& operator<<(std::ostream& out, const LayoutCase& c) {
  return out << c.name;
}

void expect_same_model(const LayoutCase& c, int layers) {
  const RunOptions options{.steps = 5, .edit = thin_out};
  const Keys model = odd_model(c.family, layers) + c.common;
  const RunRecord reference = run_fixture(fixture_config(model), options);
  const RunRecord run = run_fixture(fixture_config(model + c.keys), options);
  expect_parity(run, reference, c.name);
  if (!c.bitwise) return;
  for (const auto& [name, values] : reference.gradients) EXPECT_EQ(run.gradients.at(name), values) << name;
  EXPECT_EQ(run.losses, reference.losses);
}

}  // namespace tessera::test
