// SPDX-License-Identifier: Apache-2.0
// Mixtures that change during a run, by their stages and when it goes on with others: shares at every prefix,
// nothing repeated or lost; and contexts that are shorter than rows.
#include <gmock/gmock.h>

#include <cmath>
#include <map>
#include <set>

#include "framework/dataset/dataset.h"
#include "tests/unit/dataset/scratch.h"

namespace tessera {
namespace {

using test::ScratchFolder;

constexpr int64_t kStageRow = 36;
constexpr int64_t kBatch = 5;

DatasetOptions three_sources(const ScratchFolder& folder) {
  DatasetOptions options;
  const std::map<std::string, std::vector<int64_t>> lengths = {
      {"a", std::vector<int64_t>(31, 60)}, {"b", {1003, 7, 0, 300}}, {"c", std::vector<int64_t>(13, 41)}};
  for (const auto& [name, documents] : lengths) {
    test::write_documents(folder / name, documents);
    options.sources.push_back({.name = name, .path = folder / name});
  }
  options.samples = {.seq_length = kStageRow, .vocab_size = 1003, .shuffle_seed = 5, .tokenizer = "bytes"};
  options.stages = {{.start = 4, .weights = {1, 0, 3}},
                    {.start = 9, .context = 12},
                    {.start = 13, .weights = {0, 1, 1e-9}, .context = 5}};
  return options;
}

// Weights and context of a batch, as three_sources says.
std::vector<double> weights_at(int64_t batch) {
  if (batch >= 4 && batch < 9) return {0.25, 0, 0.75};
  if (batch >= 13) return {0, 1, 0};  // to less than a sample
  return {1.0 / 3, 1.0 / 3, 1.0 / 3};
}
int64_t context_at(int64_t batch) {
  return batch < 9 ? 0 : batch < 13 ? 12 : 5;
}

void expect_shares_and_no_repeats(
    const std::vector<std::vector<SampleId>>& batches, int64_t first_batch,
    std::map<std::pair<int64_t, int64_t>, std::set<std::pair<int64_t, int64_t>>>& seen) {
  std::vector<double> due(3, 0), given(3, 0), weights;
  for (size_t i = 0; i < batches.size(); ++i) {
    const std::vector<double> now = weights_at(first_batch + static_cast<int64_t>(i));
    if (now != weights) due = given = std::vector<double>(3, 0);
    weights = now;
    for (const SampleId& id : batches[i]) {
      const auto source = static_cast<size_t>(id.source);
      for (size_t s = 0; s < 3; ++s) due[s] += weights[s];
      ++given[source];
      EXPECT_GT(weights[source], 0) << "batch " << i;
      for (size_t s = 0; s < 3; ++s) EXPECT_LT(std::abs(given[s] - due[s]), 1) << "batch " << i;
      EXPECT_TRUE((seen[{id.source, id.epoch}].insert({id.block, id.index}).second));
    }
  }
}

// What is in an epoch's set is all of the epoch, unless it is the last of its source.
template <class Seen>
void expect_whole_epochs(const Seen& seen, const Dataset& dataset) {
  for (const auto& [source_epoch, rows] : seen) {
    const auto [source, epoch] = source_epoch;
    if (!seen.contains({source, epoch + 1})) continue;
    const Packing& packing = dataset.sources()[static_cast<size_t>(source)].packing();
    int64_t expected = 0;
    for (int64_t block = 0; block < packing.blocks(epoch); ++block) expected += packing.rows(epoch, block);
    EXPECT_EQ(static_cast<int64_t>(rows.size()), expected) << "source " << source << ", epoch " << epoch;
  }
}

class Stages : public testing::TestWithParam<SampleOptions::Packing> {};

TEST_P(Stages, HaveTheirSharesAndRepeatNothing) {
  const ScratchFolder folder;
  DatasetOptions options = three_sources(folder);
  options.samples.packing = GetParam();
  Dataset dataset(options);
  std::vector<std::vector<SampleId>> batches;
  for (int64_t batch = 0; batch < 60; ++batch) {
    batches.push_back(dataset.next(Samples(kBatch)));
    EXPECT_EQ(dataset.context(), context_at(batch));
  }
  std::map<std::pair<int64_t, int64_t>, std::set<std::pair<int64_t, int64_t>>> seen;
  expect_shares_and_no_repeats(batches, 0, seen);
  expect_whole_epochs(seen, dataset);
  EXPECT_GT(seen.size(), 4u);
  double samples = 0;
  for (size_t s = 0; s < 3; ++s) samples += dataset.expected_samples(s, 60, Samples(kBatch));
  EXPECT_NEAR(samples, 300, 1e-6);
  EXPECT_NEAR(dataset.expected_samples(0, 60, Samples(kBatch)), 4 * 5 / 3.0 + 5 * 5 * 0.25 + 4 * 5 / 3.0,
              1e-6);
}

// A run that stops after any batch, on a border of stages or not, goes on as if it had not.
TEST_P(Stages, ResumeAfterAnyBatch) {
  const ScratchFolder folder;
  DatasetOptions options = three_sources(folder);
  options.samples.packing = GetParam();
  Dataset straight(options), resumed(options);
  std::string cursor;
  for (int64_t batch = 0; batch < 20; ++batch) {
    Dataset part(options);
    if (!cursor.empty()) part.restore(cursor);
    EXPECT_EQ(part.batches(), batch);
    EXPECT_EQ(part.next(Samples(kBatch)), straight.next(Samples(kBatch))) << batch;
    EXPECT_EQ(part.context(), context_at(batch));
    cursor = part.cursor();
    EXPECT_EQ(cursor, straight.cursor());
  }
}

// Stages may change when a run goes on, also in the middle of one, as may the weights of sources.
TEST_P(Stages, OthersOnResumeRepeatNothing) {
  const ScratchFolder folder;
  DatasetOptions options = three_sources(folder);
  options.samples.packing = GetParam();
  const std::vector<StageOptions> others = {{.start = 0, .weights = {1, 1, 0}},
                                            {.start = 6, .weights = {0.25, 0, 0.75}},
                                            {.start = 7, .weights = {5, 2, 0.001}}};
  std::map<std::pair<int64_t, int64_t>, std::set<std::pair<int64_t, int64_t>>> seen;
  std::string cursor;
  for (int64_t batch = 0, part_number = 0; batch < 60; ++part_number) {
    if (part_number == 1) options.stages = others;
    if (part_number == 2) options.stages.clear();
    if (part_number == 3) options.sources[1].weight = 7;
    Dataset part(options);
    if (!cursor.empty()) part.restore(cursor);
    for (const int64_t end = batch + 6 + part_number; batch < end; ++batch)
      for (const SampleId& id : part.next(Samples(kBatch)))
        EXPECT_TRUE((seen[{id.source, id.epoch}].insert({id.block, id.index}).second)) << batch;
    cursor = part.cursor();
  }
  expect_whole_epochs(seen, Dataset(options));
}

INSTANTIATE_TEST_SUITE_P(Packings, Stages,
                         testing::Values(SampleOptions::Packing::Cut, SampleOptions::Packing::FirstFit),
                         [](const auto& info) {
                           return info.param == SampleOptions::Packing::Cut ? "Cut" : "FirstFit";
                         });

// Under "cut" a row with contexts of l tokens is what rows of l tokens are.
TEST(Contexts, AreRowsOfTheirOwnLength) {
  const ScratchFolder folder;
  for (const bool mask : {true, false}) {
    DatasetOptions options = three_sources(folder);
    options.samples.document_mask = mask;
    const Dataset whole(options);
    options.samples.seq_length = 12;
    const Dataset parts(options);
    for (int64_t sample = 0; sample < 20; ++sample) {
      const std::vector<SampleId> one = {{.source = 1, .index = sample}};
      std::vector<SampleId> three;
      for (int64_t i = 0; i < 3; ++i) three.push_back({.source = 1, .index = 3 * sample + i});
      const HostBatch a = whole.read(one, 0, 1, 12), b = parts.read(three, 0, 3);
      EXPECT_EQ(a.tokens, b.tokens);
      EXPECT_EQ(a.targets, b.targets);
      EXPECT_EQ(a.positions, b.positions);
      EXPECT_EQ(a.weights, b.weights);
      for (size_t i = 0; i < a.document_start.size(); ++i)
        EXPECT_EQ(a.document_start[i], b.document_start[i] + static_cast<int32_t>(i / 12 * 12));
    }
  }
}

// Whole documents are cut from their own beginnings, and one that fits is not cut.
TEST(Contexts, OfWholeDocumentsBeginWithThem) {
  const ScratchFolder folder;
  DatasetOptions options = three_sources(folder);
  options.samples.packing = SampleOptions::Packing::FirstFit;
  options.samples.seq_length = 100;
  const Dataset dataset(options);
  const Packing& packing = dataset.sources()[2].packing();  // documents of 41: two in a row
  const SampleId id = {.source = 2, .index = 0};
  ASSERT_EQ(packing.parts(0, 0, 0).size(), 2u);
  for (const int64_t context : {41, 20}) {
    const HostBatch batch = dataset.read({&id, 1}, 0, 1, context);
    for (int32_t i = 0; i < 82; ++i) {
      const auto at = static_cast<size_t>(i);
      const int32_t in_document = i % 41, in_context = in_document % static_cast<int32_t>(context);
      EXPECT_EQ(batch.positions[at], in_context) << i;
      EXPECT_EQ(batch.document_start[at], i - in_context) << i;
      EXPECT_EQ(batch.targets[at] >= 0, in_document != 40) << i;  // the target of a cut is the next token
    }
  }
}

}  // namespace
}  // namespace tessera
