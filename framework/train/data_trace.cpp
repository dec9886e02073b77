// SPDX-License-Identifier: Apache-2.0
#include "framework/train/data_trace.h"

#include <algorithm>

#include "framework/base/check.h"
#include "framework/config/load.h"
#include "framework/train/data_feed.h"
#include "framework/train/data_ledger.h"

namespace tessera {

namespace fs = std::filesystem;

namespace {

constexpr int64_t kPreviewTokens = 32;
constexpr size_t kPreviewBytes = 60;

// One line of text, cut between characters.
std::string shortened(const std::string& text) {
  size_t size = std::min(text.size(), kPreviewBytes);
  while (size > 0 && size < text.size() && (static_cast<unsigned char>(text[size]) & 0xC0) == 0x80) --size;
  std::string line = text.substr(0, size);
  for (char& c : line)
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  return size < text.size() ? line + "..." : line;
}

TracedSample trace_sample(const Dataset& dataset, const SampleId& id, int64_t row, const Tokenizer& tokenizer,
                          int64_t vocab_size) {
  const Source& source = dataset.sources()[static_cast<size_t>(id.source)];
  TracedSample sample{.row = row,
                      .source = source.report().name,
                      .epoch = id.epoch,
                      .block = id.block,
                      .index = id.index,
                      .parts = {}};
  for (const DocumentPart& part : source.packing().parts(id.epoch, id.block, id.index)) {
    std::vector<int32_t> ids(static_cast<size_t>(std::min(part.count, kPreviewTokens)));
    source.store().read(part.first, vocab_size, ids);
    // Ids that the model has and the tokenizer has not are no text.
    std::erase_if(ids, [&](int32_t token) { return token >= tokenizer.vocab_size(); });
    const int64_t begin = part.first - source.store().document_begin(part.document);
    sample.parts.push_back({.document = part.document,
                            .begin = begin,
                            .end = begin + part.count,
                            .text = shortened(tokenizer.decode(ids))});
  }
  return sample;
}

}  // namespace

StepTrace trace_step(const fs::path& run_folder, Steps step) {
  CHECK_AS(ExitCode::Usage, step.value >= 1, "step {}: steps count from 1", step.value);
  const LedgerEntry entry = DataLedger(run_folder).before(step);
  const RunConfig config =
      parse_config(entry.config, {.file = run_folder / "config.toml", .overrides = {}, .environment = {}})
          .config;
  CHECK_AS(ExitCode::Usage, step.value <= config.train.steps, "step {}: the run has {} steps", step.value,
           config.train.steps);
  Dataset dataset(dataset_options(config));
  dataset.restore(entry.cursor);
  std::vector<SampleId> ids;
  for (int64_t done = entry.step.value; done < step.value; ++done)
    ids = dataset.next(Samples(config.train.global_batch_size));
  const auto tokenizer = tokenizer_of(config);
  StepTrace trace{.step = step, .context = dataset.context(), .samples = {}};
  for (size_t row = 0; row < ids.size(); ++row)
    trace.samples.push_back(
        trace_sample(dataset, ids[row], static_cast<int64_t>(row), *tokenizer, config.model.vocab_size));
  return trace;
}

std::vector<SourceOverview> overview_of_sources(const RunConfig& config) {
  const Dataset dataset(dataset_options(config));
  std::vector<SourceOverview> overview;
  for (size_t i = 0; i < dataset.sources().size(); ++i) {
    const TokenStore& store = dataset.sources()[i].store();
    const SourceReport& report = dataset.sources()[i].report();
    SourceOverview source{.name = report.name,
                          .path = report.path,
                          .kind = report.kind,
                          .documents = report.documents,
                          .tokens = report.tokens,
                          .bytes = store.bytes(),
                          .learned_tokens = report.tokens,
                          .share = dataset.expected_samples(i, config.train.steps, Samples(1)) /
                                   static_cast<double>(std::max<int64_t>(1, config.train.steps))};
    int64_t begin = 0;
    for (int64_t document = 0; document < store.documents(); ++document) {
      const int64_t end = store.document_end(document);
      source.longest_document = std::max(source.longest_document, end - begin);
      source.empty_documents += end == begin;
      begin = end;
    }
    if (store.has_mask()) {
      source.learned_tokens = 0;
      std::vector<uint8_t> mask;
      for (int64_t at = 0; at < store.tokens(); at += static_cast<int64_t>(mask.size())) {
        mask.resize(static_cast<size_t>(std::min<int64_t>(1 << 16, store.tokens() - at)));
        store.read_mask(at, mask);
        source.learned_tokens += std::count(mask.begin(), mask.end(), uint8_t{1});
      }
    }
    overview.push_back(std::move(source));
  }
  return overview;
}

}  // namespace tessera
