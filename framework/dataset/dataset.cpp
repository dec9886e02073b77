// SPDX-License-Identifier: Apache-2.0
#include "framework/dataset/dataset.h"

#include <algorithm>

#include "framework/base/check.h"

namespace tessera {
namespace {

std::vector<double> weights_of(const DatasetOptions& options) {
  std::vector<double> weights;
  for (const SourceOptions& source : options.sources) weights.push_back(source.weight);
  return weights;
}

void check_options(const DatasetOptions& options) {
  const SampleOptions& samples = options.samples;
  CHECK_AS(ExitCode::Usage, !options.sources.empty(), "data.sources is empty: there is nothing to read");
  CHECK_AS(ExitCode::Usage, samples.seq_length >= 1 && samples.seq_length < INT32_MAX,
           "train.seq_length = {}", samples.seq_length);
  CHECK_AS(ExitCode::Usage, samples.vocab_size >= 1 && samples.vocab_size <= INT32_MAX,
           "model.vocab_size = {}", samples.vocab_size);
  const auto [train, evaluation] = samples.split;
  CHECK_AS(ExitCode::Usage, train >= 0 && evaluation >= 0 && train + evaluation > 0,
           "data.split = [{}, {}]: two shares, not both 0", train, evaluation);
  for (size_t i = 0; i < options.sources.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      const SourceOptions &a = options.sources[j], &b = options.sources[i];
      CHECK_AS(ExitCode::Usage, a.name != b.name, "two data sources are named {}", a.name);
      CHECK_AS(ExitCode::Usage, source_identity(a.path) != source_identity(b.path),
               "data sources {} and {} are the same {}; list it once, with the sum of the weights", a.name,
               b.name, b.path.string());
    }
  }
}

DatasetOptions checked(DatasetOptions options) {
  check_options(options);
  return options;
}

}  // namespace

Dataset::Dataset(DatasetOptions options)
    : options_(checked(std::move(options))),
      weights_(weights_of(options_)),
      mixture_(weights_),
      taken_before_(options_.sources.size(), 0) {
  for (const SourceOptions& source : options_.sources) sources_.emplace_back(source, options_.samples);
}

SampleId Dataset::training_id(size_t source, int64_t taken) const {
  const int64_t per_epoch = sources_[source].train_samples();
  CHECK_AS(ExitCode::Usage, per_epoch > 0, "data.split leaves nothing of source {} for training",
           sources_[source].report().name);
  const int64_t epoch = taken / per_epoch;
  return {.source = static_cast<int64_t>(source),
          .epoch = epoch,
          .index = sources_[source].train_sample(options_.shuffle_seed, epoch, taken % per_epoch)};
}

std::vector<SampleId> Dataset::next(Samples count) {
  std::vector<SampleId> ids;
  ids.reserve(static_cast<size_t>(count.value));
  for (int64_t i = 0; i < count.value; ++i) {
    const size_t source = mixture_.next();
    ids.push_back(training_id(source, taken_before_[source] + mixture_.taken()[source] - 1));
  }
  position_ += count;
  return ids;
}

std::vector<SampleId> Dataset::evaluation(Samples first, Samples count) const {
  std::vector<SampleId> ids;
  std::vector<double> weights = weights_;
  for (size_t i = 0; i < weights.size(); ++i)
    if (sources_[i].eval_samples() == 0) weights[i] = 0;
  if (std::all_of(weights.begin(), weights.end(), [](double weight) { return weight == 0; })) return ids;
  Mixture mixture(weights);
  while (mixture.position() < first.value + count.value) {
    const size_t source = mixture.next();
    const int64_t number = mixture.taken()[source] - 1;
    if (number >= sources_[source].eval_samples()) break;
    if (mixture.position() <= first.value) continue;
    ids.push_back({static_cast<int64_t>(source), 0, sources_[source].eval_sample(number)});
  }
  return ids;
}

HostBatch Dataset::read(std::span<const SampleId> global_batch, int64_t first_row, int64_t rows) const {
  HostBatch batch(first_row, rows, options_.samples.seq_length);
  const auto samples = static_cast<int64_t>(global_batch.size());
  for (int64_t row = 0; row < rows && first_row + row < samples; ++row) {
    const SampleId& id = global_batch[static_cast<size_t>(first_row + row)];
    sources_[static_cast<size_t>(id.source)].read(id.index, batch.row(row));
  }
  batch.count_weights();
  return batch;
}

Tokens Dataset::trained(std::span<const SampleId> global_batch) const {
  Tokens sum{0};
  for (const SampleId& id : global_batch)
    sum.value += sources_[static_cast<size_t>(id.source)].trained_positions(id.index);
  return sum;
}

std::string describe(const SourceReport& report, double share, Samples run_samples) {
  std::string text =
      fmt::format("source {}: {} tokens in {} documents ({}); {} samples for training", report.name,
                  report.tokens, report.documents, report.kind, report.train_samples);
  if (report.eval_samples > 0) text += fmt::format(", {} for evaluation", report.eval_samples);
  text += fmt::format("; {} tokens used, {} dropped", report.used_tokens, report.dropped_tokens);
  if (report.train_samples > 0) {
    const double epochs =
        share * static_cast<double>(run_samples.value) / static_cast<double>(report.train_samples);
    text += fmt::format("; share {:.4g}, {:.3g} epochs in this run", share, epochs);
  }
  return text;
}

}  // namespace tessera
