// SPDX-License-Identifier: Apache-2.0
// Loss masks beside token files, and files that change while they are read.
#include <gmock/gmock.h>

#include <fstream>

#include "framework/dataset/dataset.h"
#include "framework/dataset/token_file.h"
#include "tests/unit/dataset/scratch.h"

namespace tessera {
namespace {

using test::message_of;
using test::ScratchFolder;
using testing::HasSubstr;
namespace fs = std::filesystem;

// Documents of these lengths, of which the token at i is learned when i % 3 == 1; none in document 2.
const std::vector<int64_t> kMaskedLengths = {40, 7, 90, 1, 55};

bool learned(int64_t document, int64_t token) {
  return document != 2 && token % 3 == 1;
}

void write_masked(const fs::path& prefix) {
  TokenFileWriter writer(prefix, "bytes", 257);
  writer.keep_mask();
  int64_t at = 0;
  for (size_t document = 0; document < kMaskedLengths.size(); ++document) {
    std::vector<int32_t> ids;
    std::vector<uint8_t> mask;
    for (int64_t i = 0; i < kMaskedLengths[document]; ++i, ++at) {
      ids.push_back(static_cast<int32_t>(at));
      mask.push_back(learned(static_cast<int64_t>(document), at) ? 1 : 0);
    }
    writer.add(ids, mask);
    writer.end_document();
  }
  writer.finish();
  int64_t expected = 0;
  at = 0;
  for (size_t document = 0; document < kMaskedLengths.size(); ++document)
    for (int64_t i = 0; i < kMaskedLengths[document]; ++i, ++at)
      expected += learned(static_cast<int64_t>(document), at);
  EXPECT_EQ(writer.trained_tokens(), expected);
}

DatasetOptions options_of(const fs::path& prefix, SampleOptions::Packing packing) {
  return {.sources = {{.name = "masked", .path = prefix}},
          .samples = {.seq_length = 16, .vocab_size = 257, .packing = packing, .tokenizer = "bytes"}};
}

// A target has a weight when its own token is to be learned; ids, targets and positions are as without a
// mask.
TEST(LossMask, WeighsTargets) {
  const ScratchFolder folder;
  write_masked(folder / "d");
  for (const auto packing : {SampleOptions::Packing::Cut, SampleOptions::Packing::FirstFit}) {
    Dataset dataset(options_of(folder / "d", packing));
    const std::vector<SampleId> ids = dataset.next(Samples(12));
    const HostBatch batch = dataset.read(ids, 0, 12);
    EXPECT_EQ(dataset.trained(ids), batch.trained);
    EXPECT_GT(batch.trained.value, 0);
    int64_t targets = 0;
    for (size_t i = 0; i < batch.tokens.size(); ++i) {
      if (batch.targets[i] >= 0) {
        EXPECT_EQ(batch.targets[i], batch.tokens[i] + 1);
        ++targets;
      }
      const bool expected = batch.targets[i] >= 0 && learned(batch.document_ids[i], batch.targets[i]);
      ASSERT_EQ(batch.weights[i], expected ? 1 : 0) << "position " << i;
    }
    EXPECT_GT(targets, batch.trained.value);
  }
}

TEST(LossMask, IsCheckedAsTheTokensAre) {
  const ScratchFolder folder;
  write_masked(folder / "d");
  const auto refused = [&] {
    return message_of(ExitCode::Data, [&] {
      Dataset dataset(options_of(folder / "d", SampleOptions::Packing::Cut));
      const auto ids = dataset.next(Samples(12));
      (void)dataset.read(ids, 0, 12);
    });
  };
  const std::string before = TokenFile(folder / "d").fingerprint();
  std::string mask = test::read_text(folder / "d.mask");
  ASSERT_EQ(mask.size(), 193u);
  mask[60] = 0;
  mask[61] = 1;
  test::write_text(folder / "d.mask", mask);
  EXPECT_NE(TokenFile(folder / "d").fingerprint(), before);
  mask[60] = 7;
  test::write_text(folder / "d.mask", mask);
  EXPECT_THAT(refused(), HasSubstr("d.mask: byte 60 is 7"));
  test::write_text(folder / "d.mask", mask.substr(1));
  EXPECT_THAT(refused(), HasSubstr("d.mask has 192 bytes for 193 tokens"));
  fs::remove(folder / "d.mask");
  EXPECT_THAT(refused(), HasSubstr("written with a loss mask"));
  // Tokens of others have no note: a mask of the right size is theirs.
  fs::remove(folder / "d.meta.json");
  EXPECT_FALSE(TokenFile(folder / "d").has_mask());
  mask[60] = 1;
  test::write_text(folder / "d.mask", mask);
  EXPECT_TRUE(TokenFile(folder / "d").has_mask());
  // New tokens without a mask take the old one away; one that comes back is noticed.
  test::write_documents(folder / "d", {193}, 257);
  EXPECT_FALSE(fs::exists(folder / "d.mask"));
  test::write_text(folder / "d.mask", mask);
  EXPECT_THAT(refused(), HasSubstr("written without a loss mask"));
}

TEST(LossMask, AppearsWithTheTokensOrNotAtAll) {
  const ScratchFolder folder;
  {
    TokenFileWriter writer(folder / "d", "bytes", 257);
    writer.keep_mask();
    const std::vector<int32_t> ids = {1, 2, 3};
    EXPECT_THROW(writer.add(ids), Error);
    writer.add(ids, std::vector<uint8_t>{0, 1, 1});
  }
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

// Whatever changes, shrinks or grows below a run is noticed at the next row.
TEST(ChangingFiles, EndTheRun) {
  for (const char* ending : {".bin", ".idx", ".mask"}) {
    for (const int64_t by : {-10, 0, 10}) {
      const ScratchFolder folder;
      write_masked(folder / "d");
      Dataset dataset(options_of(folder / "d", SampleOptions::Packing::Cut));
      const auto ids = dataset.next(Samples(3));
      (void)dataset.read(ids, 0, 3);
      const fs::path file = (folder / "d").string() + ending;
      const auto size = static_cast<int64_t>(fs::file_size(file));
      if (by == 0)
        fs::last_write_time(file, fs::last_write_time(file) + std::chrono::seconds(3));
      else
        fs::resize_file(file, static_cast<uintmax_t>(size + by));
      const std::string message = message_of(ExitCode::Data, [&] { (void)dataset.read(ids, 0, 3); });
      EXPECT_THAT(message, HasSubstr(std::string(ending) + " changed while it was read"));
      EXPECT_THAT(message_of(ExitCode::Data, [&] { (void)dataset.trained(ids); }), HasSubstr("changed"));
    }
  }
}

}  // namespace
}  // namespace tessera
