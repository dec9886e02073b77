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
  for (const StageOptions& stage : options.stages)
    CHECK(stage.weights.empty() || stage.weights.size() == options.sources.size(),
          "a stage has {} weights for {} sources", stage.weights.size(), options.sources.size());
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

// All stages with their weights, and one from the start.
std::vector<StageOptions> stages_of(const DatasetOptions& options) {
  std::vector<StageOptions> stages = options.stages;
  if (stages.empty() || stages[0].start > 0) stages.insert(stages.begin(), StageOptions{});
  for (StageOptions& stage : stages)
    if (stage.weights.empty()) stage.weights = weights_of(options);
  return stages;
}

}  // namespace

Dataset::Dataset(DatasetOptions options)
    : options_(checked(std::move(options))), stages_(stages_of(options_)), mixture_(stages_[0].weights) {
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

void Dataset::enter_stage_of(int64_t batch) {
  const std::vector<double>& before = stages_[stage_].weights;
  size_t now = 0;
  while (now + 1 < stages_.size() && stages_[now + 1].start <= batch) ++now;
  if (stages_[now].weights != before) mixture_ = Mixture(stages_[now].weights);
  stage_ = now;
}

double Dataset::expected_samples(size_t source, int64_t batches, Samples size) const {
  double samples = 0;
  for (size_t i = 0; i < stages_.size(); ++i) {
    const int64_t end = i + 1 < stages_.size() ? std::min(stages_[i + 1].start, batches) : batches;
    const int64_t length = std::max<int64_t>(0, end - stages_[i].start);
    samples += Mixture(stages_[i].weights).share(source) * static_cast<double>(length * size.value);
  }
  return samples;
}

std::vector<SampleId> Dataset::next(Samples count) {
  enter_stage_of(batches_++);
  std::vector<SampleId> ids;
  ids.reserve(static_cast<size_t>(count.value));
  for (int64_t i = 0; i < count.value; ++i) ids.push_back(take(mixture_.next()));
  position_ += count;
  return ids;
}

std::vector<SampleId> Dataset::evaluation(Samples first, Samples count) const {
  std::vector<SampleId> ids;
  std::vector<double> weights = weights_of(options_);
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

HostBatch Dataset::read(std::span<const SampleId> global_batch, int64_t first_row, int64_t rows,
                        int64_t context) const {
  HostBatch batch(first_row, rows, options_.samples.seq_length);
  batch.source_count = static_cast<int64_t>(sources_.size());
  const auto samples = static_cast<int64_t>(global_batch.size());
  for (int64_t row = 0; row < rows && first_row + row < samples; ++row) {
    const SampleId& id = global_batch[static_cast<size_t>(first_row + row)];
    sources_[static_cast<size_t>(id.source)].read(id, context, batch.row(row));
    batch.set_source(row, id.source);
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

std::string describe(const SourceReport& report, double share, double run_samples) {
  const PackingReport& packing = report.packing;
  const std::string_view least = packing.exact ? "" : "at least ";
  std::string text =
      fmt::format("source {}: {} tokens in {} documents ({}); {}{} samples for training", report.name,
                  report.tokens, report.documents, report.kind, least, packing.train_samples);
  if (packing.eval_samples > 0) text += fmt::format(", {}{} for evaluation", least, packing.eval_samples);
  text += fmt::format("; {} tokens used, {} dropped", packing.used_tokens, packing.dropped_tokens);
  if (packing.train_samples > 0) {
    text += fmt::format("; share {:.4g}, {}{:.3g} epochs in this run", share, packing.exact ? "" : "at most ",
                        run_samples / static_cast<double>(packing.train_samples));
  }
  return text;
}

}  // namespace tessera
