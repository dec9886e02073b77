// SPDX-License-Identifier: Apache-2.0
// First-fit packing against a packing by hand, and what every order must keep: each token once an epoch, the
// same rows whoever asks, and a cursor that goes on in the middle of a block.
#include <gmock/gmock.h>

#include <map>
#include <numeric>
#include <set>

#include "framework/dataset/dataset.h"
#include "framework/dataset/token_file.h"
#include "tests/unit/dataset/scratch.h"

namespace tessera {
namespace {

using test::message_of;
using test::ScratchFolder;
using testing::HasSubstr;

constexpr int64_t kRowLength = 37;
constexpr uint64_t kSeed = 5;

// More than one block of documents of 0 to 49 tokens, and some that are longer than one row or many.
std::vector<int64_t> odd_lengths() {
  std::vector<int64_t> lengths;
  const RandomKey key = random_key(3, "lengths");
  for (uint64_t i = 0; i < 5003; ++i) lengths.push_back(philox(key, i)[0] % 50);
  lengths[7] = kRowLength;
  lengths[8] = 3 * kRowLength;
  lengths[4800] = 1003;
  return lengths;
}

DatasetOptions first_fit(const std::filesystem::path& path) {
  DatasetOptions options;
  options.sources.push_back({.name = path.stem().string(), .path = path});
  options.samples = {.seq_length = kRowLength,
                     .vocab_size = 1003,
                     .packing = SampleOptions::Packing::FirstFit,
                     .shuffle_seed = kSeed,
                     .tokenizer = "bytes"};
  return options;
}

// Rows of (document, first token in the document, tokens), by the plain reading of first fit.
using Rows = std::vector<std::vector<std::array<int64_t, 3>>>;
Rows packed_by_hand(const std::vector<int64_t>& lengths, const std::vector<int64_t>& documents) {
  Rows rows;
  std::vector<int64_t> room;
  for (const int64_t document : documents) {
    int64_t at = 0, left = lengths[static_cast<size_t>(document)];
    for (; left >= kRowLength; at += kRowLength, left -= kRowLength) {
      rows.push_back({{document, at, kRowLength}});
      room.push_back(0);
    }
    if (left == 0) continue;
    size_t row = 0;
    while (row < rows.size() && room[row] < left) ++row;
    if (row == rows.size()) {
      rows.emplace_back();
      room.push_back(kRowLength);
    }
    rows[row].push_back({document, at, left});
    room[row] -= left;
  }
  return rows;
}

std::vector<int64_t> permuted_documents(const std::string& source, int64_t epoch, int64_t count) {
  const RandomKey key = mixed(random_key(kSeed, "sample order/" + source), static_cast<uint64_t>(epoch));
  std::vector<int64_t> documents;
  for (int64_t i = 0; i < count; ++i)
    documents.push_back(
        static_cast<int64_t>(permuted(static_cast<uint64_t>(i), static_cast<uint64_t>(count), key)));
  return documents;
}

std::vector<int64_t> begins_of(const std::vector<int64_t>& lengths) {
  std::vector<int64_t> begins(lengths.size());
  std::exclusive_scan(lengths.begin(), lengths.end(), begins.begin(), int64_t{0});
  return begins;
}

TEST(FirstFit, RowsAreThoseOfPackingByHand) {
  const ScratchFolder folder;
  const std::vector<int64_t> lengths = odd_lengths(), begins = begins_of(lengths);
  test::write_documents(folder / "d", lengths);
  const Dataset dataset(first_fit(folder / "d"));
  const Packing& packing = dataset.sources()[0].packing();
  for (const int64_t epoch : {0, 1}) {
    const std::vector<int64_t> documents =
        permuted_documents("d", epoch, static_cast<int64_t>(lengths.size()));
    ASSERT_EQ(packing.blocks(epoch), 2);
    for (const int64_t block : {1, 0}) {
      const auto from = documents.begin() + block * kDocumentsPerBlock;
      const Rows expected =
          packed_by_hand(lengths, {from, block == 0 ? from + kDocumentsPerBlock : documents.end()});
      ASSERT_EQ(packing.rows(epoch, block), static_cast<int64_t>(expected.size()));
      for (size_t row = 0; row < expected.size(); ++row) {
        const std::vector<DocumentPart> parts = packing.parts(epoch, block, static_cast<int64_t>(row));
        std::vector<std::array<int64_t, 3>> found;
        for (const DocumentPart& part : parts) {
          const auto document = static_cast<size_t>(part.document);
          found.push_back({part.document, part.first - begins[document], part.count});
          EXPECT_EQ(part.ends_document, part.first + part.count == begins[document] + lengths[document]);
        }
        ASSERT_EQ(found, expected[row]) << "epoch " << epoch << ", block " << block << ", row " << row;
      }
    }
  }
}

TEST(FirstFit, AnEpochHasEveryTokenOnce) {
  const ScratchFolder folder;
  const std::vector<int64_t> lengths = odd_lengths();
  test::write_documents(folder / "d", lengths);
  Dataset dataset(first_fit(folder / "d"));
  const SourceReport& report = dataset.sources()[0].report();
  EXPECT_EQ(report.packing.used_tokens, report.tokens);
  EXPECT_EQ(report.packing.dropped_tokens, 0);
  EXPECT_THAT(describe(report, 1, 30), HasSubstr("at least"));

  std::vector<int> times(static_cast<size_t>(report.tokens), 0);
  int64_t rows = 0, trained = 0;
  while (true) {
    const SampleId id = dataset.next(Samples(1))[0];
    if (id.epoch == 1) break;
    ++rows;
    for (const DocumentPart& part : dataset.sources()[0].packing().parts(0, id.block, id.index))
      for (int64_t i = 0; i < part.count; ++i) ++times[static_cast<size_t>(part.first + i)];
    trained += dataset.trained(std::span(&id, 1)).value;
  }
  EXPECT_EQ(std::count(times.begin(), times.end(), 1), report.tokens);
  // Every token but the last of each document is a target's predecessor, also across the rows of a long one.
  const auto documents = std::count_if(lengths.begin(), lengths.end(), [](int64_t n) { return n > 0; });
  EXPECT_EQ(trained, report.tokens - documents);
  EXPECT_GE(rows, report.packing.train_samples);
  EXPECT_LT(static_cast<double>(rows), 1.03 * static_cast<double>(report.packing.train_samples));
}

TEST(FirstFit, RowsHoldDocumentsApartAndPaddingAtTheEnd) {
  const ScratchFolder folder;
  const std::vector<int64_t> lengths = odd_lengths(), begins = begins_of(lengths);
  test::write_documents(folder / "d", lengths);
  for (const bool mask : {true, false}) {
    DatasetOptions options = first_fit(folder / "d");
    options.samples.document_mask = mask;
    Dataset dataset(options);
    const int64_t samples = 300;
    const std::vector<SampleId> ids = dataset.next(Samples(samples));
    const HostBatch batch = dataset.read(ids, 0, samples);
    EXPECT_EQ(dataset.trained(ids), batch.trained);
    for (int64_t row = 0; row < samples; ++row) {
      const SampleId& id = ids[static_cast<size_t>(row)];
      int64_t at = 0;
      for (const DocumentPart& part : dataset.sources()[0].packing().parts(0, id.block, id.index)) {
        const int64_t start = mask ? at : 0;
        const auto document = static_cast<size_t>(part.document);
        const int64_t document_end = begins[document] + lengths[document];
        for (int64_t token = part.first; token < part.first + part.count; ++token, ++at) {
          const auto i = static_cast<size_t>(row * kRowLength + at);
          const bool last = token + 1 == document_end;
          ASSERT_EQ(batch.tokens[i], token * 7 % 1003);
          ASSERT_EQ(batch.targets[i], last ? -1 : (token + 1) * 7 % 1003);
          ASSERT_EQ(batch.weights[i], last ? 0 : 1);
          ASSERT_EQ(batch.document_start[i], start);
          ASSERT_EQ(batch.positions[i], at - start);
          ASSERT_EQ(batch.document_ids[i], part.document);
        }
      }
      for (; at < kRowLength; ++at) {
        const auto i = static_cast<size_t>(row * kRowLength + at);
        ASSERT_EQ(batch.weights[i], 0);
        ASSERT_EQ(batch.targets[i], -1);
        ASSERT_EQ(batch.document_start[i], at);  // sees only itself
        ASSERT_EQ(batch.document_ids[i], -1);
      }
    }
  }
}

// Batches of any size end in the middle of blocks and cross them; the cursor goes on there.
TEST(FirstFit, ResumesInTheMiddleOfABlock) {
  const ScratchFolder folder;
  test::write_documents(folder / "d", odd_lengths());
  test::write_documents(folder / "few", {3, 90, 0, 12});
  DatasetOptions options = first_fit(folder / "d");
  options.sources.push_back({.name = "few", .path = folder / "few", .weight = 0.3});
  Dataset straight(options);
  std::string cursor;
  for (const int64_t samples : {1, 701, 4000, 17, 3381}) {  // more than an epoch of the large one
    Dataset part(options);
    if (!cursor.empty()) part.restore(cursor);
    EXPECT_EQ(part.next(Samples(samples)), straight.next(Samples(samples)));
    cursor = part.cursor();
    EXPECT_EQ(cursor, straight.cursor());
  }
  EXPECT_THAT(cursor, HasSubstr("\"epoch\":1,\"block\":1"));
}

TEST(FirstFit, DividesDocumentsForEvaluation) {
  const ScratchFolder folder;
  const std::vector<int64_t> lengths = odd_lengths();
  test::write_documents(folder / "d", lengths);
  DatasetOptions options = first_fit(folder / "d");
  options.samples.split = {0.9, 0.1};
  Dataset dataset(options);
  const Packing& packing = dataset.sources()[0].packing();
  EXPECT_EQ(packing.report().train_documents, 4503);
  EXPECT_EQ(packing.report().eval_documents, 500);
  const auto documents_of = [&](const std::vector<SampleId>& ids) {
    std::set<int64_t> documents;
    for (const SampleId& id : ids)
      for (const DocumentPart& part : packing.parts(id.epoch, id.block, id.index))
        documents.insert(part.document);
    return documents;
  };
  EXPECT_LT(*documents_of(dataset.next(Samples(6000))).rbegin(), 4503);
  const std::vector<SampleId> evaluation = dataset.evaluation(Samples(0), Samples(100000));
  const std::set<int64_t> evaluated = documents_of(evaluation);
  const auto filled = std::count_if(lengths.begin() + 4503, lengths.end(), [](int64_t n) { return n > 0; });
  EXPECT_GE(*evaluated.begin(), 4503);
  EXPECT_EQ(static_cast<int64_t>(evaluated.size()), filled);
  // In parts, as a run evaluates.
  std::vector<SampleId> parts;
  for (int64_t at = 0; at < 100000; at += 60) {
    const std::vector<SampleId> part = dataset.evaluation(Samples(at), Samples(60));
    if (part.empty()) break;
    parts.insert(parts.end(), part.begin(), part.end());
  }
  EXPECT_EQ(parts, evaluation);
}

TEST(FirstFit, EmptyDocumentsAndShortSourcesAreNoTrouble) {
  const ScratchFolder folder;
  std::vector<int64_t> lengths(9000, 0);  // a whole block without a row
  lengths[4] = 5;
  lengths[8000] = 2;
  test::write_documents(folder / "sparse", lengths);
  Dataset dataset(first_fit(folder / "sparse"));
  std::map<int64_t, int64_t> trained;  // of an epoch
  for (const SampleId& id : dataset.next(Samples(12))) trained[id.epoch] += dataset.trained({&id, 1}).value;
  trained.erase(std::prev(trained.end()));
  for (const auto& [epoch, tokens] : trained) EXPECT_EQ(tokens, 5 - 1 + 2 - 1) << epoch;
  test::write_documents(folder / "none", {0, 0});
  EXPECT_THAT(message_of(ExitCode::Data, [&] { Dataset none(first_fit(folder / "none")); }),
              HasSubstr("has 0 tokens"));
}

TEST(FirstFit, ACursorOfAnotherPackingOrPlaceIsRefused) {
  const ScratchFolder folder;
  test::write_documents(folder / "d", odd_lengths());
  DatasetOptions options = first_fit(folder / "d");
  Dataset dataset(options);
  dataset.next(Samples(50));
  const std::string cursor = dataset.cursor();
  options.samples.packing = SampleOptions::Packing::Cut;
  EXPECT_THAT(message_of(ExitCode::Data, [&] { Dataset(options).restore(cursor); }), HasSubstr("first_fit"));
  std::string damaged = cursor;
  const std::string key = "\"row\":";
  damaged.replace(damaged.find(key) + key.size(), 1, "999999");
  EXPECT_THAT(message_of(ExitCode::Data, [&] { dataset.restore(damaged); }), HasSubstr("there is no row"));
}

}  // namespace
}  // namespace tessera
