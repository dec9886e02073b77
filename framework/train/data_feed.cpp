// SPDX-License-Identifier: Apache-2.0
#include "framework/train/data_feed.h"

#include "framework/base/check.h"

namespace tessera {
namespace {

SourceOptions::Format source_format(DataSource::Format format) {
  switch (format) {
    case DataSource::Format::TokenFile:
      return SourceOptions::Format::Indexed;
    case DataSource::Format::Text:
      return SourceOptions::Format::Text;
    case DataSource::Format::Auto:
      break;
  }
  return SourceOptions::Format::Auto;
}

}  // namespace

std::unique_ptr<Tokenizer> tokenizer_of(const RunConfig& config) {
  const TokenizerSection& section = config.tokenizer;
  return make_tokenizer(
      section.type == TokenizerSection::Type::Bytes ? "bytes" : "bpe",
      {.path = section.path, .end_of_document = section.end_of_document, .pattern = section.pattern});
}

DatasetOptions dataset_options(const RunConfig& config) {
  const std::shared_ptr<Tokenizer> tokenizer = tokenizer_of(config);
  const bool bytes = tokenizer->type() == "bytes";
  CHECK_AS(ExitCode::Data, bytes || tokenizer->vocab_size() <= config.model.vocab_size,
           "the tokenizer {} has {} ids and model.vocab_size is {}: set it to at least that",
           config.tokenizer.path, tokenizer->vocab_size(), config.model.vocab_size);
  DatasetOptions options{.sources = {},
                         .samples = {.seq_length = config.train.seq_length,
                                     .vocab_size = config.model.vocab_size,
                                     .split = config.data.split,
                                     .packing = config.data.packing == DataSection::Packing::FirstFit
                                                    ? SampleOptions::Packing::FirstFit
                                                    : SampleOptions::Packing::Cut,
                                     .document_mask = config.data.document_mask,
                                     .shuffle_seed = static_cast<uint64_t>(config.data.shuffle_seed),
                                     .tokenizer = tokenizer->name(),
                                     .text_end_of_document = tokenizer->end_of_document()}};
  if (!bytes)
    options.samples.encode_text = [tokenizer](std::string_view text, std::vector<int32_t>& ids) {
      const std::vector<int32_t> document = tokenizer->encode(text);
      ids.insert(ids.end(), document.begin(), document.end());
      ids.push_back(tokenizer->end_of_document());
    };
  for (const DataSource& source : config.data.sources)
    options.sources.push_back({.name = source.name,
                               .path = source.path,
                               .weight = source.weight,
                               .format = source_format(source.format)});
  for (const DataStage& stage : config.data.stages)
    options.stages.push_back(
        {.start = stage.start.value(), .weights = stage.weights, .context = stage.seq_length.value_or(0)});
  return options;
}

DataFeed::DataFeed(const RunConfig& config, int data_rank)
    : micro_(config.train.micro_batch_size),
      accumulation_(config.train.gradient_accumulation_steps),
      global_(config.train.global_batch_size),
      data_ranks_(config.parallel.dp),
      data_rank_(data_rank),
      dataset_(dataset_options(config)) {}

DataFeed::GlobalBatch DataFeed::divide(std::vector<SampleId> samples, int64_t context) const {
  GlobalBatch batch{.samples = std::move(samples), .context = context, .microbatches = {}};
  for (int64_t m = 0; m < accumulation_; ++m)
    batch.microbatches.push_back(
        dataset_.read(batch.samples, (m * data_ranks_ + data_rank_) * micro_, micro_, context));
  return batch;
}

DataFeed::GlobalBatch DataFeed::next() {
  std::vector<SampleId> samples = dataset_.next(Samples(global_));
  return divide(std::move(samples), dataset_.context());
}

DataFeed::GlobalBatch DataFeed::evaluation(int64_t index) const {
  return divide(dataset_.evaluation(Samples(index * global_), Samples(global_)), 0);
}

}  // namespace tessera
