// SPDX-License-Identifier: Apache-2.0
// What --check says of model states against Table 1 of the ZeRO paper, for real models whose parameters are
// within 1 % of the paper's round figures. docs/memory.md has the table.
#include "tests/fixtures/planner/zero_model_states.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "framework/config/load.h"
#include "framework/config/resolve.h"
#include "framework/train/predict.h"
#include "models/registry.h"
#include "tests/support/doc_page.h"

namespace tessera {
namespace {

struct GptShape {
  double billions;
  int layers, hidden, heads;
};
// Widths are multiples of 1,024, so that every size of the table divides every unit.
constexpr GptShape kShapes[] = {{7.5, 36, 4096, 32}, {128, 101, 10240, 80}, {1000, 127, 25600, 160}};

RunConfig gpt_on(const GptShape& shape, int stage, int data_ranks, const std::string& extra = "") {
  const std::string text =
      fmt::format(R"(
[run]
name = "test"
[model]
architecture = "gpt"
vocab_size = 50257
hidden_size = {}
num_hidden_layers = {}
num_attention_heads = {}
[parallel]
dp = {}
zero_stage = {}
[train]
micro_batch_size = 1
global_batch_size = {}
seq_length = 1024
steps = 5
[optimizer]
lr = 1e-4
[precision]
compute = "bf16"
grad_accumulate = "compute"
[[data.sources]]
path = "x.txt"
{})",
                  shape.hidden, shape.layers, shape.heads, data_ranks, stage, data_ranks, extra);
  RunConfig config = parse_config(text, {.file = "test.toml", .overrides = {}, .environment = {}}).config;
  resolve_parallel(config, data_ranks);
  return config;
}

// Bytes a parameter that each rank holds whole, and that N ranks share.
struct BytesPerParameter {
  int64_t whole, shared;
};
constexpr BytesPerParameter kByStage[] = {{16, 0}, {4, 12}, {2, 14}, {0, 16}};

// Exactly the paper's formula, on models that divide; returns GB for the paper's round number of parameters.
double checked_gigabytes(const ZeroModelStatesRow& row) {
  const GptShape& shape = *std::ranges::find(kShapes, row.billions, &GptShape::billions);
  const RunConfig config = gpt_on(shape, row.stage, row.data_ranks);
  const ModelDefinition model = define_model(config);
  const auto facts = nlohmann::json::parse(check_report(config, model, row.data_ranks, 1, true));
  const auto parameters = facts["parameters"]["total"].get<int64_t>();
  EXPECT_NEAR(static_cast<double>(parameters) / 1e9, row.billions, 0.01 * row.billions);
  EXPECT_EQ(parameters % row.data_ranks, 0);

  const auto [whole, shared] = kByStage[row.stage];
  const int64_t formula = whole * parameters + shared * (parameters / row.data_ranks);
  const nlohmann::json& bytes = facts["memory_bytes"];
  const auto padding = bytes["padding"].get<int64_t>();
  EXPECT_EQ(bytes["model_states"].get<int64_t>() - padding, formula);
  // Each unit has a few storages, each rounded up to 64 bytes.
  EXPECT_LE(padding, 63 * (4 * (shape.layers + 2)));
  return static_cast<double>(formula) / static_cast<double>(parameters) * row.billions;
}

// Of the paper's last digit.
double unit_of(const char* printed) {
  const char* point = std::strchr(printed, '.');
  return point == nullptr ? 1 : std::pow(10, 1 - static_cast<double>(std::strlen(point)));
}

TEST(ZeroModelStates, EveryCellOfThePapersTable) {
  std::string page =
      "| parameters | stage | N = 1 | 4 | 16 | 64 | 256 | 1024 |\n|---|---|---|---|---|---|---|---|\n";
  for (const ZeroModelStatesRow& row : kZeroModelStates) {
    SCOPED_TRACE(fmt::format("{}B, stage {}, {} ranks", row.billions, row.stage, row.data_ranks));
    const double ours = checked_gigabytes(row), printed = std::stod(row.printed), unit = unit_of(row.printed);
    const bool cut_off = ours >= printed && ours < printed + unit;
    EXPECT_TRUE(cut_off || std::abs(ours - printed) <= unit / 2 * (1 + 1e-9)) << ours << ", not " << printed;
    if (row.data_ranks == 1) page += fmt::format("| {}B | {} |", row.billions, row.stage);
    page += fmt::format(" {:.5g} ({}) |{}", ours, row.printed, row.data_ranks == 1024 ? "\n" : "");
  }
  expect_tables(TESSERA_SOURCE_DIR "/docs/memory.md", {{"model states", page}});
}

TEST(ZeroModelStates, SharesThatDoNotComeOutWholeArePadded) {
  const GptShape shape{.billions = 0, .layers = 3, .hidden = 76, .heads = 4};
  constexpr int kRanks = 7;
  for (const int stage : {1, 2}) {
    const RunConfig config = gpt_on(shape, stage, kRanks, "[comm]\nbucket_size_mb = 1000");
    const ModelDefinition model = define_model(config);
    const MemoryPlan plan = predict_memory(config, model, kRanks, 1);
    const int64_t parameters = count_parameters(model.parameters).total;
    ASSERT_NE(parameters % kRanks, 0);
    // One bucket: whole tensors reach to the end of the last rank's share, and the first rank's has no gap.
    const int64_t share = parameters / kRanks + 1;
    const auto [whole, shared] = kByStage[stage];
    EXPECT_EQ(plan.model_states() - plan.padding, whole * parameters + shared * share);
    EXPECT_GE(plan.padding, whole * (share * kRanks - parameters));
    EXPECT_LE(plan.padding, whole * (share * kRanks - parameters) + 5 * 63);
  }
}

TEST(ZeroModelStates, AreReadableInTheText) {
  const RunConfig config = gpt_on(kShapes[0], 1, 64);
  const std::string text = check_report(config, define_model(config), 64, 1, false);
  EXPECT_NE(text.find("model states     31.24 GB = 14.92 parameters + 14.92 gradients + 1.40 masters and "
                      "optimizer; "),
            std::string::npos)
      << text;
}

}  // namespace
}  // namespace tessera
