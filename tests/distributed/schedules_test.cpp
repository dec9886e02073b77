// SPDX-License-Identifier: Apache-2.0
// Every schedule beside every number of ranks and micro-batches, with recomputation and without, tied and
// not, on 7 layers (K10): after one step, the gradients of a pure pipeline have the bits of one stage; beside
// another axis they are within rounding.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include "tests/support/parity_data.h"

namespace tessera::test {
namespace {

struct Case {
  std::string schedule;
  int ranks, microbatches;
  bool recompute, tied;
  std::string axis = {};  // a second one, of two ranks
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << fmt::format("{}_{}_ranks_{}_microbatches{}{}{}", c.schedule, c.ranks, c.microbatches,
                            c.recompute ? "_recomputed" : "", c.tied ? "_tied" : "",
                            c.axis.empty() ? "" : "_beside_" + c.axis);
}

bool two_stages_a_rank(const std::string& schedule) {
  return schedule == "interleaved" || schedule == "zb_v" || schedule == "v_half" || schedule == "v_min" ||
         schedule == "dualpipe_v";
}

std::vector<Case> cases() {
  constexpr int kMicrobatches[] = {1, 3, 4, 8};
  const std::string axes[] = {"dp", "tp", "sp"};
  std::vector<Case> all;
  size_t number = 0;
  for (const char* schedule :
       {"1f1b", "gpipe", "interleaved", "zb_h1", "zb_h2", "zb_v", "v_half", "v_min", "dualpipe_v", "auto"}) {
    // Two stages on each of four ranks would be more than 7 layers.
    for (int ranks = 2; ranks <= (two_stages_a_rank(schedule) ? 3 : 4); ++ranks)
      for (int times = 0; times < 2; ++times, ++number)
        all.push_back(
            {schedule, ranks, kMicrobatches[(number + number / 4) % 4], number % 3 == 0, number % 2 == 1});
    all.push_back({schedule, 2, 4, number % 2 == 0, number % 3 != 0, axes[all.size() % 3]});
  }
  return all;
}

class Schedules : public testing::TestWithParam<Case> {};

// One step of one rank, made once for each model and size of micro-batches.
const RunRecord& reference_of(const Keys& model) {
  static std::map<Keys, RunRecord> references;
  auto [it, fresh] = references.try_emplace(model);
  if (fresh) it->second = run_fixture(fixture_config(model), {.steps = 1, .edit = thin_out});
  return it->second;
}

TEST_P(Schedules, GradientsAreThoseOfOneStage) {
  const Case& c = GetParam();
  const int micro = (8 + c.microbatches - 1) / c.microbatches;
  const Keys model =
      odd_model(c.tied ? "gpt" : "llama", 7) + Keys{fmt::format("train.micro_batch_size={}", micro)};
  Keys keys = model + Keys{fmt::format("parallel.pp={}", c.ranks), "parallel.schedule=" + c.schedule};
  if (c.schedule == "interleaved") keys.push_back("parallel.virtual_stages=2");
  if (c.recompute) keys.push_back("activation_checkpointing.mode=stage");
  if (!c.axis.empty()) keys.push_back("parallel." + c.axis + "=2");

  const RunRecord& reference = reference_of(model);
  const RunRecord run = run_fixture(fixture_config(keys), {.steps = 1, .edit = thin_out});
  expect_parity(run, reference, fmt::format("{}", testing::PrintToString(c)));
  if (!c.axis.empty()) return;
  EXPECT_EQ(run.losses, reference.losses);
  for (const auto& [name, values] : reference.gradients) {
    // The two uses of a tied tensor are summed on their own stages first.
    if (c.tied && name == "embedding.token.weight") continue;
    EXPECT_EQ(run.gradients.at(name), values) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Schedules, testing::ValuesIn(cases()),
                         [](const auto& info) { return testing::PrintToString(info.param); });

// Micro-batches of one step that differ in length: messages between stages have the sizes of theirs.
void cut_to_other_lengths(int, DataFeed::GlobalBatch& global) {
  constexpr int64_t kLengths[] = {37, 5, 1, 22};
  for (size_t m = 0; m < global.microbatches.size(); ++m) {
    HostBatch& whole = global.microbatches[m];
    HostBatch cut(whole.row_ids.front(), whole.rows, kLengths[m % 4]);
    for (int64_t row = 0; row < cut.rows; ++row) {
      const RowView from = whole.row(row), to = cut.row(row);
      const auto copy = [&](auto source, auto target) {
        std::copy_n(source.begin(), target.size(), target.begin());
      };
      copy(from.tokens, to.tokens);
      copy(from.targets, to.targets);
      copy(from.positions, to.positions);
      copy(from.document_start, to.document_start);
      copy(from.weights, to.weights);
      copy(from.document_ids, to.document_ids);
    }
    whole = std::move(cut);
  }
}

TEST(SequenceLengths, MayDifferBetweenMicroBatches) {
  const Keys model = odd_model("llama", 7) + Keys{"train.micro_batch_size=2"};
  const RunOptions options{.steps = 2, .edit = cut_to_other_lengths};
  const RunRecord reference = run_fixture(fixture_config(model), options);
  for (const char* schedule : {"1f1b", "gpipe", "zb_v", "v_min"})
    for (const char* recompute : {"none", "stage"}) {
      const RunRecord run = run_fixture(
          fixture_config(model + Keys{"parallel.pp=2", std::string("parallel.schedule=") + schedule,
                                      std::string("activation_checkpointing.mode=") + recompute}),
          options);
      EXPECT_EQ(run.gradients, reference.gradients) << schedule << ", recomputed: " << recompute;
      EXPECT_EQ(run.losses, reference.losses) << schedule;
      EXPECT_EQ(run.tokens, reference.tokens) << schedule;
    }
}

}  // namespace
}  // namespace tessera::test
