// SPDX-License-Identifier: Apache-2.0
// The losses of single sources on every kind of mesh, against runs that train nothing else (K16).
#include <gtest/gtest.h>

#include <filesystem>

#include "framework/dataset/token_file_writer.h"
#include "tests/support/parity_data.h"
#include "tests/support/scratch_folder.h"

namespace tessera::test {
namespace {

namespace fs = std::filesystem;

// Three sources: one of a few frequent ids, one of many, and one that seldom comes.
const Keys& three_sources() {
  static const ScratchFolder folder;
  static const Keys keys = [] {
    std::string list;
    int number = 0;
    for (const auto& [name, weight] : {std::pair{"few", 2.0}, {"many", 1.5}, {"rare", 0.4}}) {
      const std::filesystem::path prefix = folder / name;
      TokenFileWriter writer(prefix, "bytes", 1003);
      const RandomKey key = random_key(7, name);
      uint64_t at = 0;
      for (int document = 0; document < 60; ++document) {
        std::vector<int32_t> tokens(1 + philox(key, at++)[0] % 70);
        for (int32_t& token : tokens)
          token = static_cast<int32_t>(philox(key, at++)[0] % (number == 0 ? 13 : 1003));
        writer.add(tokens);
        writer.end_document();
      }
      writer.finish();
      list += "{path=\"" + prefix.string() + "\", weight=" + std::to_string(weight) + "},";
      ++number;
    }
    return Keys{"data.sources=[" + list + "]", "train.global_batch_size=11", "train.micro_batch_size=11"};
  }();
  return keys;
}

struct MeshCase {
  const char* name;
  Keys keys;
};

class SourceLoss : public testing::TestWithParam<MeshCase> {};

TEST_P(SourceLoss, IsThatOfARunWithoutTheOthers) {
  const Keys model = odd_model("llama", 2) + three_sources();
  const RunRecord all = run_fixture(fixture_config(model + GetParam().keys));
  ASSERT_EQ(all.source_loss_sums[0].size(), 3u);
  double sum = 0;
  int64_t tokens = 0;
  for (int32_t source = 0; source < 3; ++source) {
    // On one rank, with every other source's tokens weighing nothing.
    const RunRecord only =
        run_fixture(fixture_config(model), {.edit = [&](int, DataFeed::GlobalBatch& global) {
                      for (HostBatch& batch : global.microbatches)
                        for (size_t i = 0; i < batch.weights.size(); ++i)
                          if (batch.sources[i] != source) batch.weights[i] = 0;
                    }});
    ASSERT_GT(only.tokens[0], 0);
    const double expected = only.losses[0] * static_cast<double>(only.tokens[0]);
    EXPECT_NEAR(all.source_loss_sums[0][static_cast<size_t>(source)], expected, 1e-5 * expected) << source;
    sum += all.source_loss_sums[0][static_cast<size_t>(source)];
    tokens += only.tokens[0];
  }
  EXPECT_EQ(tokens, all.tokens[0]);
  EXPECT_NEAR(sum / static_cast<double>(tokens), all.losses[0], 1e-6 * all.losses[0]);
}

INSTANTIATE_TEST_SUITE_P(Meshes, SourceLoss,
                         testing::Values(MeshCase{"one", {}},
                                         MeshCase{"dp3", {"parallel.dp=3", "train.micro_batch_size=2"}},
                                         MeshCase{"tp2", {"parallel.tp=2"}},
                                         MeshCase{"sp2", {"parallel.sp=2", "train.micro_batch_size=4"}},
                                         MeshCase{"pp2", {"parallel.pp=2", "train.micro_batch_size=4"}},
                                         MeshCase{"tp2_sp2_dp2",
                                                  {"parallel.tp=2", "parallel.sp=2", "parallel.dp=2",
                                                   "train.micro_batch_size=3"}}),
                         [](const auto& info) { return info.param.name; });

// A run of one source keeps no sums of its own: they are the loss.
TEST(SourceLossOfOne, IsTheLoss) {
  const RunRecord run = run_fixture(fixture_config(odd_model("gpt", 2)));
  EXPECT_TRUE(run.source_loss_sums[0].empty());
}

}  // namespace
}  // namespace tessera::test
