// SPDX-License-Identifier: Apache-2.0
#include "framework/dataset/dataset.h"

#include <gmock/gmock.h>

#include <cmath>
#include <map>
#include <set>

#include "framework/dataset/token_file.h"
#include "tests/unit/dataset/scratch.h"

namespace tessera {
namespace {

using test::message_of;
using test::ScratchFolder;
using testing::HasSubstr;

constexpr int64_t kLength = 64;

// Documents of 1 and 7 tokens, an empty one, one longer than a sample: 1003 tokens.
const std::vector<int64_t> kOddLengths = {1, 7, 1, 300, 0, 64, 1, 7, 7, 120, 63, 1, 431};

// Documents that end where samples end: 684 tokens.
const std::vector<int64_t> kEvenLengths = {64, 128, 1, 63, 7, 57, 0, 64, 300};

DatasetOptions options_for(const std::vector<std::filesystem::path>& paths) {
  DatasetOptions options;
  for (const auto& path : paths)
    options.sources.push_back({.name = path.stem().string(), .path = path, .weight = 1});
  options.samples = {
      .seq_length = kLength, .vocab_size = 1003, .tokenizer = "bytes", .text_end_of_document = 256};
  options.samples.shuffle_seed = 5;
  return options;
}

struct Token {
  int64_t id, document, place;  // place: in the document
  bool last;                    // of the document
};

// The tokens of write_documents, from its description and not from the reader.
std::vector<Token> reference_tokens(const std::vector<int64_t>& lengths) {
  std::vector<Token> tokens;
  for (size_t document = 0; document < lengths.size(); ++document)
    for (int64_t place = 0; place < lengths[document]; ++place)
      tokens.push_back({static_cast<int64_t>(tokens.size()) * 7 % 1003, static_cast<int64_t>(document), place,
                        place + 1 == lengths[document]});
  return tokens;
}

void expect_row(const HostBatch& batch, int64_t row, int64_t sample, bool mask,
                const std::vector<Token>& tokens) {
  for (int64_t i = 0; i < kLength; ++i) {
    const auto at = static_cast<size_t>(row * kLength + i);
    const auto global = static_cast<size_t>(sample * kLength + i);
    const Token& token = tokens[global];
    SCOPED_TRACE(testing::Message() << "sample " << sample << " position " << i);
    const int64_t start = mask ? std::max<int64_t>(0, i - token.place) : 0;
    EXPECT_EQ(batch.tokens[at], token.id);
    EXPECT_EQ(batch.targets[at], token.last ? -1 : tokens[global + 1].id);
    EXPECT_EQ(batch.weights[at], token.last ? 0 : 1);
    EXPECT_EQ(batch.positions[at], i - start);
    EXPECT_EQ(batch.document_start[at], start);
    EXPECT_EQ(batch.document_ids[at], token.document);
  }
}

// Samples cut anywhere, and samples whose ends are ends of documents.
TEST(Dataset, RowsAreTheDocumentedCut) {
  for (const auto& lengths : {kOddLengths, kEvenLengths}) {
    const ScratchFolder folder;
    test::write_documents(folder / "d", lengths);
    const std::vector<Token> tokens = reference_tokens(lengths);
    const auto samples = static_cast<int64_t>(tokens.size() - 1) / kLength;
    for (const bool mask : {true, false}) {
      DatasetOptions options = options_for({folder / "d"});
      options.samples.document_mask = mask;
      Dataset dataset(options);
      ASSERT_EQ(dataset.sources()[0].report().packing.train_samples, samples);
      const std::vector<SampleId> ids = dataset.next(Samples(samples));
      const HostBatch batch = dataset.read(ids, 0, samples);
      double weight_sum = 0;
      for (int64_t row = 0; row < samples; ++row) {
        expect_row(batch, row, ids[static_cast<size_t>(row)].index, mask, tokens);
        EXPECT_EQ(batch.row_ids[static_cast<size_t>(row)], row);
      }
      for (const float weight : batch.weights) weight_sum += weight;
      EXPECT_EQ(batch.weight_sum, weight_sum);
      EXPECT_EQ(batch.trained, Tokens(static_cast<int64_t>(weight_sum)));
      EXPECT_EQ(dataset.trained(ids), batch.trained);
    }
  }
}

TEST(Dataset, CountsEveryToken) {
  const ScratchFolder folder;
  test::write_documents(folder / "odd", kOddLengths);
  for (const std::array<double, 2> split : {std::array{1.0, 0.0}, {0.8, 0.2}, {3.0, 1.0}, {0.999, 0.001}}) {
    DatasetOptions options = options_for({folder / "odd"});
    options.samples.split = split;
    const Dataset dataset(options);
    const SourceReport& report = dataset.sources()[0].report();
    EXPECT_EQ(report.tokens, 1003);
    EXPECT_EQ(report.documents, 13);
    const PackingReport& packing = report.packing;
    EXPECT_EQ(packing.used_tokens, 15 * 64 + 1);
    EXPECT_EQ(packing.used_tokens + packing.dropped_tokens, report.tokens);
    EXPECT_EQ(packing.train_samples + packing.eval_samples, 15);
    EXPECT_EQ(packing.eval_samples > 0, split[1] > 0);
    EXPECT_THAT(describe(report, 1, 30), HasSubstr("42 dropped"));
  }
}

TEST(Dataset, EachEpochHasEverySampleOnceInAnotherOrder) {
  const ScratchFolder folder;
  test::write_documents(folder / "odd", kOddLengths);
  Dataset dataset(options_for({folder / "odd"}));
  std::vector<std::vector<int64_t>> epochs(4);
  for (int i = 0; i < 12; ++i) {  // batches of 7 and 3 cross the ends of epochs of 15
    for (const SampleId& id : dataset.next(Samples(i % 2 ? 3 : 7))) {
      if (id.epoch < 4) epochs[static_cast<size_t>(id.epoch)].push_back(id.index);
    }
  }
  for (const auto& epoch : epochs) {
    EXPECT_EQ(epoch.size(), 15u);
    EXPECT_EQ(std::set<int64_t>(epoch.begin(), epoch.end()).size(), 15u);
    EXPECT_EQ(*std::max_element(epoch.begin(), epoch.end()), 14);
  }
  EXPECT_NE(epochs[0], epochs[1]);
  EXPECT_NE(epochs[1], epochs[2]);
  EXPECT_NE(epochs[0], epochs[2]);
}

TEST(Dataset, TheSeedChangesTheOrderAndNothingElse) {
  const ScratchFolder folder;
  test::write_documents(folder / "odd", kOddLengths);
  DatasetOptions options = options_for({folder / "odd"});
  Dataset a(options), same(options);
  options.samples.shuffle_seed = 6;
  Dataset b(options);
  const auto ids = a.next(Samples(15)), other = b.next(Samples(15));
  EXPECT_EQ(same.next(Samples(15)), ids);
  EXPECT_NE(other, ids);
  std::set<int64_t> indexes;
  for (const SampleId& id : other) indexes.insert(id.index);
  EXPECT_EQ(indexes.size(), 15u);
}

TEST(Dataset, EachSourceHasAnOrderOfItsOwn) {
  const ScratchFolder folder;
  test::write_documents(folder / "a", kOddLengths);
  test::write_documents(folder / "b", kOddLengths);
  const auto orders_of = [](const DatasetOptions& options) {
    std::map<std::string, std::vector<int64_t>> orders;
    Dataset dataset(options);
    for (const SampleId& id : dataset.next(Samples(15 * static_cast<int64_t>(options.sources.size()))))
      orders[options.sources[static_cast<size_t>(id.source)].name].push_back(id.index);
    return orders;
  };
  auto both = orders_of(options_for({folder / "a", folder / "b"}));
  EXPECT_NE(both["a"], both["b"]);
  // Neither the place in the list nor the other sources matter.
  EXPECT_EQ(orders_of(options_for({folder / "b", folder / "a"})), both);
  EXPECT_EQ(orders_of(options_for({folder / "b"}))["b"], both["b"]);
}

// The batch of a step is one list, whichever ranks read which rows of it and in how many pieces.
TEST(Dataset, RowsDoNotDependOnWhoReadsThem) {
  const ScratchFolder folder;
  test::write_documents(folder / "odd", kOddLengths);
  Dataset dataset(options_for({folder / "odd"}));
  const std::vector<SampleId> ids = dataset.next(Samples(13));
  const HostBatch whole = dataset.read(ids, 0, 13);
  for (const int64_t rows : {1, 2, 3, 4}) {
    for (int64_t first = 0; first < 13; first += rows) {
      const HostBatch part = dataset.read(ids, first, rows);
      for (int64_t i = 0; i < std::min(rows, 13 - first) * kLength; ++i) {
        const auto at = static_cast<size_t>(i), from = static_cast<size_t>(first * kLength + i);
        ASSERT_EQ(part.tokens[at], whole.tokens[from]);
        ASSERT_EQ(part.targets[at], whole.targets[from]);
        ASSERT_EQ(part.token_index[at], whole.token_index[from]);
      }
    }
  }
}

// Any number of samples over any ranks and micro-batches: every sample counts once, padding counts nothing.
TEST(Dataset, PadsPartialBatches) {
  const ScratchFolder folder;
  test::write_documents(folder / "odd", kOddLengths);
  for (int64_t samples = 1; samples <= 13; ++samples) {
    Dataset dataset(options_for({folder / "odd"}));
    const std::vector<SampleId> ids = dataset.next(Samples(samples));
    const double expected = dataset.read(ids, 0, samples).weight_sum;
    for (const int64_t micro_batch : {1, 2, 3}) {
      for (const int64_t dp : {1, 2, 3}) {
        const int64_t per_rank = (samples + dp * micro_batch - 1) / (dp * micro_batch) * micro_batch;
        double sum = 0;
        for (int64_t first = 0; first < dp * per_rank; first += micro_batch) {
          const HostBatch part = dataset.read(ids, first, micro_batch);
          sum += part.weight_sum;
          for (int64_t row = 0; row < micro_batch; ++row) {
            EXPECT_EQ(part.row_ids[static_cast<size_t>(row)], first + row);
            if (first + row < samples) continue;
            for (int64_t i = 0; i < kLength; ++i) {
              const auto at = static_cast<size_t>(row * kLength + i);
              ASSERT_EQ(part.weights[at], 0);
              ASSERT_EQ(part.targets[at], -1);
              ASSERT_EQ(part.document_start[at], i);  // sees only itself
              ASSERT_EQ(part.document_ids[at], -1);
            }
          }
        }
        EXPECT_EQ(sum, expected);
      }
    }
  }
}

TEST(Dataset, ResumesWithoutRepeatOrGap) {
  const ScratchFolder folder;
  test::write_documents(folder / "odd", kOddLengths);
  test::write_documents(folder / "two", {200, 129});
  DatasetOptions options = options_for({folder / "odd", folder / "two"});
  options.sources[1].weight = 0.4;
  std::vector<std::vector<SampleId>> straight;
  Dataset dataset(options);
  for (int step = 0; step < 20; ++step) straight.push_back(dataset.next(Samples(12)));

  std::string cursor;
  std::vector<std::vector<SampleId>> resumed;
  for (const int steps : {3, 4, 6, 1, 6}) {
    Dataset part(options);
    if (!cursor.empty()) part.restore(cursor);
    EXPECT_EQ(part.position(), Samples(static_cast<int64_t>(resumed.size()) * 12));
    for (int step = 0; step < steps; ++step) resumed.push_back(part.next(Samples(12)));
    cursor = part.cursor();
  }
  EXPECT_EQ(resumed, straight);
  EXPECT_EQ(cursor, dataset.cursor());
}

// Position counts samples: another batch size goes on at the same sample.
TEST(Dataset, BatchSizeDoesNotMoveTheOrder) {
  const ScratchFolder folder;
  test::write_documents(folder / "odd", kOddLengths);
  Dataset a(options_for({folder / "odd"})), b(options_for({folder / "odd"}));
  std::vector<SampleId> ids;
  for (const int64_t count : {12, 1, 7, 4, 0, 16}) {
    const auto part = b.next(Samples(count));
    ids.insert(ids.end(), part.begin(), part.end());
  }
  EXPECT_EQ(a.next(Samples(40)), ids);
}

TEST(Dataset, ResumesDeepInsideWithoutReplay) {
  const ScratchFolder folder;
  test::write_documents(folder / "odd", kOddLengths);
  Dataset dataset(options_for({folder / "odd"}));
  std::string cursor = dataset.cursor();
  const int64_t deep = int64_t{15} << 40;  // would take days to replay
  const std::pair<const char*, int64_t> moved[] = {{"\"taken\":", deep},
                                                   {"\"taken_in_mixture\":", deep},
                                                   {"\"samples\":", deep},
                                                   {"\"epoch\":", deep / 15}};
  for (const auto& [key, value] : moved) {
    const size_t at = cursor.find(key) + std::string(key).size();
    cursor.replace(at, 1, std::to_string(value));
  }
  dataset.restore(cursor);
  EXPECT_EQ(dataset.position(), Samples(deep));
  std::set<int64_t> indexes;
  for (const SampleId& id : dataset.next(Samples(15))) {
    EXPECT_EQ(id.epoch, deep / 15);
    indexes.insert(id.index);
  }
  EXPECT_EQ(indexes.size(), 15u);
}

TEST(Dataset, ChangedWeightsRepeatNothingWithinAnEpoch) {
  const ScratchFolder folder;
  test::write_documents(folder / "odd", kOddLengths);                   // 15 samples
  test::write_documents(folder / "big", std::vector<int64_t>(7, 457));  // 49 samples
  DatasetOptions options = options_for({folder / "odd", folder / "big"});
  std::map<std::pair<int64_t, int64_t>, std::set<int64_t>> seen;  // of (source, epoch)
  std::string cursor;
  int64_t total = 0;
  for (const double weight : {0.2, 3.0, 0.001, 1.0}) {
    options.sources[0].weight = weight;
    Dataset dataset(options);
    if (!cursor.empty()) dataset.restore(cursor);
    std::array<int64_t, 2> given = {0, 0};
    for (int64_t n = 1; n <= 31; ++n, ++total) {
      const SampleId id = dataset.next(Samples(1))[0];
      ++given[static_cast<size_t>(id.source)];
      EXPECT_TRUE((seen[{id.source, id.epoch}].insert(id.index).second));
      const double ideal = static_cast<double>(n) * weight / (weight + 1);
      EXPECT_LT(std::abs(static_cast<double>(given[0]) - ideal), 1);
    }
    cursor = dataset.cursor();
    EXPECT_EQ(dataset.position(), Samples(total));
  }
  for (const auto& [source_epoch, indexes] : seen) {
    const auto size = static_cast<size_t>(source_epoch.first == 0 ? 15 : 49);
    const bool ended = seen.count({source_epoch.first, source_epoch.second + 1}) > 0;
    EXPECT_TRUE(!ended || indexes.size() == size);
  }
}

TEST(Dataset, ANewSourceStartsAtItsBeginning) {
  const ScratchFolder folder;
  test::write_documents(folder / "odd", kOddLengths);
  test::write_documents(folder / "two", {200, 129});
  Dataset one(options_for({folder / "odd"}));
  const auto before = one.next(Samples(9));
  Dataset both(options_for({folder / "two", folder / "odd"}));
  both.restore(one.cursor());
  EXPECT_EQ(both.position(), Samples(9));
  std::set<int64_t> odd;
  for (const SampleId& id : before) odd.insert(id.index);
  for (const SampleId& id : both.next(Samples(10))) {
    EXPECT_EQ(id.epoch, 0);
    EXPECT_TRUE(id.source == 0 || odd.insert(id.index).second);
  }
}

TEST(Dataset, ResumeRefusesOtherData) {
  const ScratchFolder folder;
  test::write_documents(folder / "odd", kOddLengths);
  const DatasetOptions options = options_for({folder / "odd"});
  Dataset dataset(options);
  dataset.next(Samples(4));
  const std::string cursor = dataset.cursor();
  const auto restored = [&](const DatasetOptions& changed) {
    return message_of(ExitCode::Data, [&] {
      Dataset other(changed);
      other.restore(cursor);
    });
  };
  DatasetOptions longer = options;
  longer.samples.seq_length = 63;
  EXPECT_THAT(restored(longer), HasSubstr("train.seq_length is 63"));
  DatasetOptions split = options;
  split.samples.split = {0.5, 0.5};
  EXPECT_THAT(restored(split), HasSubstr("data.split"));
  for (const char* damaged : {"", "{", "[]", "{\"version\":2}", "{\"version\":7}"}) {
    Dataset other(options);
    message_of(ExitCode::Data, [&] { other.restore(damaged); });
  }
  std::vector<int64_t> lengths = kOddLengths;
  std::swap(lengths[0], lengths[1]);
  test::write_documents(folder / "odd", lengths);
  EXPECT_THAT(restored(options), HasSubstr("not the data"));
}

TEST(Dataset, SplitsIntoRangesThatShareNoTarget) {
  const ScratchFolder folder;
  test::write_documents(folder / "odd", kOddLengths);
  DatasetOptions options = options_for({folder / "odd"});
  options.samples.split = {0.7, 0.3};
  Dataset dataset(options);
  std::set<int64_t> train;
  for (const SampleId& id : dataset.next(Samples(40))) train.insert(id.index);
  const std::vector<SampleId> evaluation = dataset.evaluation(Samples(0), Samples(100));
  EXPECT_EQ(train.size(), 10u);
  EXPECT_EQ(*train.rbegin(), 9);
  ASSERT_EQ(evaluation.size(), 5u);
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(evaluation[i].index, static_cast<int64_t>(10 + i));
  // In pieces, and at the end.
  EXPECT_EQ(dataset.evaluation(Samples(2), Samples(2)),
            (std::vector<SampleId>{evaluation[2], evaluation[3]}));
  EXPECT_EQ(dataset.evaluation(Samples(4), Samples(7)).size(), 1u);
  EXPECT_TRUE(dataset.evaluation(Samples(5), Samples(7)).empty());
  EXPECT_EQ(dataset.position(), Samples(40));
}

TEST(Dataset, EvaluatesTheMixtureUntilASourceEnds) {
  const ScratchFolder folder;
  test::write_documents(folder / "odd", kOddLengths);                   // 15 samples
  test::write_documents(folder / "big", std::vector<int64_t>(7, 457));  // 49 samples
  test::write_documents(folder / "tiny", {65});                         // 1 sample: all for training
  DatasetOptions options = options_for({folder / "odd", folder / "big", folder / "tiny"});
  options.samples.split = {0.5, 0.5};
  options.sources[1].weight = 2;
  const Dataset dataset(options);
  EXPECT_EQ(dataset.sources()[2].report().packing.eval_samples, 0);
  const std::vector<SampleId> ids = dataset.evaluation(Samples(0), Samples(1000));
  const std::set<SampleId> once(ids.begin(), ids.end());
  EXPECT_EQ(once.size(), ids.size());
  std::array<int64_t, 3> given = {0, 0, 0};
  for (const SampleId& id : ids) ++given[static_cast<size_t>(id.source)];
  EXPECT_EQ(given[0], dataset.sources()[0].report().packing.eval_samples);
  EXPECT_NEAR(static_cast<double>(given[1]), 2.0 * static_cast<double>(given[0]), 2);
  EXPECT_EQ(given[2], 0);
  EXPECT_TRUE(Dataset(options_for({folder / "odd"})).evaluation(Samples(0), Samples(9)).empty());
}

TEST(Dataset, TextAndTokenFilesOfOneTextAreTheSame) {
  const ScratchFolder folder;
  const std::string text =
      "A short text, of which both forms must give the same rows. " + std::string(300, 'x');
  test::write_text(folder / "text.txt", text);
  TokenFileWriter writer(folder / "tokens", "bytes", 257);
  std::vector<int32_t> ids;
  for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  ids.push_back(256);
  writer.add(ids);
  writer.end_document();
  writer.finish();
  Dataset plain(options_for({folder / "text.txt"})), indexed(options_for({folder / "tokens"}));
  const auto rows_of = [](const Dataset& dataset) {
    const std::vector<SampleId> all = {{0, 0, 0, 0}, {0, 0, 0, 1}, {0, 0, 0, 2}, {0, 0, 0, 3}, {0, 0, 0, 4}};
    return dataset.read(all, 0, 5);
  };
  EXPECT_EQ(plain.sources()[0].report().tokens, indexed.sources()[0].report().tokens);
  EXPECT_EQ(rows_of(plain).tokens, rows_of(indexed).tokens);
  EXPECT_EQ(rows_of(plain).targets, rows_of(indexed).targets);
}

TEST(Dataset, RefusesWhatContradictsItself) {
  const ScratchFolder folder;
  test::write_documents(folder / "odd", kOddLengths);
  test::write_text(folder / "a.txt", std::string(200, 'a'));
  std::filesystem::create_directory_symlink(folder.path(), folder / "link");
  const auto refused = [](const DatasetOptions& options) {
    return message_of(ExitCode::Usage, [&] { Dataset dataset(options); });
  };
  DatasetOptions twice = options_for({folder / "odd", folder / "link/odd.bin"});
  twice.sources[1].name = "again";
  EXPECT_THAT(refused(twice), HasSubstr("the same"));
  DatasetOptions names = options_for({folder / "odd", folder / "a.txt"});
  names.sources[1].name = "odd";
  EXPECT_THAT(refused(names), HasSubstr("named odd"));
  EXPECT_THAT(refused(options_for({})), HasSubstr("data.sources"));
  DatasetOptions narrow = options_for({folder / "a.txt"});
  narrow.samples.vocab_size = 256;
  EXPECT_THAT(refused(narrow), HasSubstr("model.vocab_size >= 257"));
  DatasetOptions words = options_for({folder / "a.txt"});
  words.samples.text_end_of_document.reset();
  EXPECT_THAT(refused(words), HasSubstr("tokenize it first"));
  DatasetOptions split = options_for({folder / "odd"});
  split.samples.split = {0, 0};
  EXPECT_THAT(refused(split), HasSubstr("data.split"));
  split.samples.split = {0, 1};
  Dataset only_evaluation(split);
  EXPECT_EQ(only_evaluation.evaluation(Samples(0), Samples(99)).size(), 15u);
  EXPECT_THAT(message_of(ExitCode::Usage, [&] { only_evaluation.next(Samples(1)); }),
              HasSubstr("data.split"));
}

TEST(Dataset, RefusesDataThatDoesNotFit) {
  const ScratchFolder folder;
  test::write_documents(folder / "odd", kOddLengths);
  test::write_documents(folder / "short", {7, 57});
  test::write_documents(folder / "enough", {7, 58});
  const auto refused = [](const DatasetOptions& options) {
    return message_of(ExitCode::Data, [&] { Dataset dataset(options); });
  };
  EXPECT_THAT(refused(options_for({folder / "short"})), HasSubstr("64 tokens"));
  EXPECT_EQ(Dataset(options_for({folder / "enough"})).sources()[0].report().packing.train_samples, 1);
  EXPECT_THAT(refused(options_for({folder / "none"})), HasSubstr("none"));
  DatasetOptions narrow = options_for({folder / "odd"});
  narrow.samples.vocab_size = 1000;
  EXPECT_THAT(refused(narrow), HasSubstr("ids up to 1002"));
  std::filesystem::remove(folder / "odd.meta.json");  // as files of others: read through when opened
  EXPECT_THAT(refused(narrow), HasSubstr("has id 100"));
  DatasetOptions words = options_for({folder / "enough"});
  words.samples.tokenizer = "bpe";
  EXPECT_THAT(refused(words), HasSubstr("made by tokenizer \"bytes\""));
  std::filesystem::remove(folder / "odd.idx");
  EXPECT_THAT(refused(options_for({folder / "odd"})), HasSubstr("odd.idx"));
}

}  // namespace
}  // namespace tessera
