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
    : options_(checked(std::move(options))), weights_(weights_of(options_)), mixture_(weights_) {
  for (const SourceOptions& source : options_.sources) {
    sources_.emplace_back(source, options_.samples);
    progress_.push_back({.next = sources_.back().packing().first(0)});
  }
}

SampleId Dataset::id_at(size_t source, const RowPlace& place) const {
  return {.source = static_cast<int64_t>(source),
          .epoch = place.epoch,
          .block = place.block,
          .index = sources_[source].packing().index(place)};
}

SampleId Dataset::take(size_t source) {
  Progress& progress = progress_[source];
  CHECK_AS(ExitCode::Usage, progress.next.has_value(), "data.split leaves nothing of source {} for training",
           sources_[source].report().name);
  const RowPlace place = *progress.next;
  const Packing& packing = sources_[source].packing();
  progress.next = packing.after(place);
  if (!progress.next) progress.next = packing.first(place.epoch + 1);
  ++progress.taken;
  return id_at(source, place);
}

std::vector<SampleId> Dataset::next(Samples count) {
  std::vector<SampleId> ids;
  ids.reserve(static_cast<size_t>(count.value));
  for (int64_t i = 0; i < count.value; ++i) ids.push_back(take(mixture_.next()));
  position_ += count;
  return ids;
}

std::vector<SampleId> Dataset::evaluation(Samples first, Samples count) const {
  std::vector<SampleId> ids;
  std::vector<double> weights = weights_;
  std::vector<std::optional<RowPlace>> places;
  for (size_t i = 0; i < weights.size(); ++i) {
    places.push_back(sources_[i].packing().first(kEvaluationEpoch));
    if (!places[i]) weights[i] = 0;
  }
  if (std::all_of(weights.begin(), weights.end(), [](double weight) { return weight == 0; })) return ids;
  Mixture mixture(weights);
  while (mixture.position() < first.value + count.value) {
    const size_t source = mixture.next();
    std::optional<RowPlace>& place = places[source];
    if (!place) break;
    if (mixture.position() > first.value) ids.push_back(id_at(source, *place));
    place = sources_[source].packing().after(*place);
  }
  return ids;
}

HostBatch Dataset::read(std::span<const SampleId> global_batch, int64_t first_row, int64_t rows) const {
  HostBatch batch(first_row, rows, options_.samples.seq_length);
  const auto samples = static_cast<int64_t>(global_batch.size());
  for (int64_t row = 0; row < rows && first_row + row < samples; ++row) {
    const SampleId& id = global_batch[static_cast<size_t>(first_row + row)];
    sources_[static_cast<size_t>(id.source)].read(id, batch.row(row));
  }
  batch.count_weights();
  return batch;
}

Tokens Dataset::trained(std::span<const SampleId> global_batch) const {
  Tokens sum{0};
  for (const SampleId& id : global_batch)
    sum.value += sources_[static_cast<size_t>(id.source)].trained_positions(id);
  return sum;
}

std::string describe(const SourceReport& report, double share, Samples run_samples) {
  const PackingReport& packing = report.packing;
  const std::string_view least = packing.exact ? "" : "at least ";
  std::string text =
      fmt::format("source {}: {} tokens in {} documents ({}); {}{} samples for training", report.name,
                  report.tokens, report.documents, report.kind, least, packing.train_samples);
  if (packing.eval_samples > 0) text += fmt::format(", {}{} for evaluation", least, packing.eval_samples);
  text += fmt::format("; {} tokens used, {} dropped", packing.used_tokens, packing.dropped_tokens);
  if (packing.train_samples > 0) {
    const double epochs =
        share * static_cast<double>(run_samples.value) / static_cast<double>(packing.train_samples);
    text += fmt::format("; share {:.4g}, {}{:.3g} epochs in this run", share, packing.exact ? "" : "at most ",
                        epochs);
  }
  return text;
}

}  // namespace tessera
