// SPDX-License-Identifier: Apache-2.0
// The cursor's JSON form.
#include <nlohmann/json.hpp>

#include "framework/base/check.h"
#include "framework/dataset/dataset.h"

namespace tessera {
namespace {

constexpr int kCursorVersion = 2;

struct SavedSource {
  double weight = 0;
  int64_t taken = 0, taken_in_mixture = 0;
  std::optional<RowPlace> next;
};

// Where a source goes on must be a row that it has.
void check_place(const Source& source, const RowPlace& place) {
  const Packing& packing = source.packing();
  CHECK_AS(ExitCode::Data,
           place.epoch >= 0 && place.block >= 0 && place.block < packing.blocks(place.epoch) &&
               place.row >= 0 && place.row < packing.rows(place.epoch, place.block),
           "source {}: the checkpoint's cursor is damaged: there is no row {} of block {} of epoch {}",
           source.report().name, place.row, place.block, place.epoch);
}

// The saved state of a source, or none when it is a new one.
std::optional<SavedSource> find_saved(const nlohmann::json& saved, const Source& source) {
  const SourceReport& report = source.report();
  for (const nlohmann::json& entry : saved) {
    if (entry.at("name").get<std::string>() != report.name) continue;
    const auto fingerprint = entry.at("fingerprint").get<std::string>();
    CHECK_AS(ExitCode::Data, fingerprint == report.fingerprint,
             "source {}: {} is not the data that the checkpoint was trained on (fingerprint {}, then {})",
             report.name, report.path, report.fingerprint, fingerprint);
    const auto samples = entry.at("train_samples").get<int64_t>();
    const auto documents = entry.at("train_documents").get<int64_t>();
    CHECK_AS(ExitCode::Data,
             samples == report.packing.train_samples && documents == report.packing.train_documents,
             "source {}: an epoch has {} samples of {} documents and had {} of {} in the checkpoint; "
             "data.split must stay as it was",
             report.name, report.packing.train_samples, report.packing.train_documents, samples, documents);
    SavedSource state = {.weight = entry.at("weight").get<double>(),
                         .taken = entry.at("taken").get<int64_t>(),
                         .taken_in_mixture = entry.at("taken_in_mixture").get<int64_t>()};
    CHECK_AS(ExitCode::Data, state.taken_in_mixture >= 0 && state.taken >= state.taken_in_mixture,
             "source {}: the checkpoint's cursor is damaged ({} samples taken, {} of them in the mixture)",
             report.name, state.taken, state.taken_in_mixture);
    if (const nlohmann::json& next = entry.at("next"); !next.is_null()) {
      state.next = {.epoch = next.at("epoch").get<int64_t>(),
                    .block = next.at("block").get<int64_t>(),
                    .row = next.at("row").get<int64_t>()};
      check_place(source, *state.next);
    }
    return state;
  }
  return std::nullopt;
}

nlohmann::ordered_json to_json(const std::optional<RowPlace>& place) {
  if (!place) return nullptr;
  return {{"epoch", place->epoch}, {"block", place->block}, {"row", place->row}};
}

std::string_view name_of(SampleOptions::Packing packing) {
  return packing == SampleOptions::Packing::Cut ? "cut" : "first_fit";
}

}  // namespace

std::string Dataset::cursor() const {
  nlohmann::ordered_json sources = nlohmann::ordered_json::array();
  for (size_t i = 0; i < sources_.size(); ++i) {
    const SourceReport& report = sources_[i].report();
    sources.push_back({{"name", report.name},
                       {"path", report.path},
                       {"fingerprint", report.fingerprint},
                       {"weight", stages_[stage_].weights[i]},
                       {"train_samples", report.packing.train_samples},
                       {"train_documents", report.packing.train_documents},
                       {"taken", progress_[i].taken},
                       {"taken_in_mixture", mixture_.taken()[i]},
                       {"next", to_json(progress_[i].next)}});
  }
  const nlohmann::ordered_json json = {{"version", kCursorVersion},
                                       {"samples", position_.value},
                                       {"batches", batches_},
                                       {"seq_length", options_.samples.seq_length},
                                       {"packing", name_of(options_.samples.packing)},
                                       {"sources", sources}};
  return json.dump();
}

void Dataset::restore(std::string_view cursor) {
  try {
    const nlohmann::json json = nlohmann::json::parse(cursor);
    CHECK_AS(ExitCode::Data, json.at("version").get<int>() == kCursorVersion,
             "the checkpoint's data cursor has version {}; version {} is read", json.at("version").get<int>(),
             kCursorVersion);
    const auto seq_length = json.at("seq_length").get<int64_t>();
    CHECK_AS(
        ExitCode::Data, seq_length == options_.samples.seq_length,
        "the checkpoint's samples have {} tokens and train.seq_length is {}: no position in one order is "
        "one in the other",
        seq_length, options_.samples.seq_length);
    const auto packing = json.at("packing").get<std::string>();
    CHECK_AS(ExitCode::Data, packing == name_of(options_.samples.packing),
             "the checkpoint's samples are packed by \"{}\" and data.packing is \"{}\": no position in one "
             "order is one in the other",
             packing, name_of(options_.samples.packing));
    const auto samples = json.at("samples").get<int64_t>(), batches = json.at("batches").get<int64_t>();
    CHECK_AS(ExitCode::Data, samples >= 0 && batches >= 0,
             "the checkpoint's data cursor is damaged: {} samples in {} batches", samples, batches);
    enter_stage_of(std::max<int64_t>(0, batches - 1));  // what differs from it begins with the next batch
    const std::vector<double>& weights = stages_[stage_].weights;
    const nlohmann::json& saved = json.at("sources");
    // The same sources with the same weights go on in the middle of the mixture; others begin a new one.
    bool same_mixture = saved.size() == sources_.size();
    std::vector<Progress> progress;
    std::vector<int64_t> taken;  // in the mixture
    for (size_t i = 0; i < sources_.size(); ++i) {
      const std::optional<SavedSource> state = find_saved(saved, sources_[i]);
      same_mixture = same_mixture && state && state->weight == weights[i];
      taken.push_back(state ? state->taken_in_mixture : 0);
      progress.push_back(state ? Progress{.next = state->next, .taken = state->taken}
                               : Progress{.next = sources_[i].packing().first(0)});
    }
    mixture_ = same_mixture ? Mixture(weights, taken) : Mixture(weights);
    progress_ = progress;
    position_ = Samples(samples);
    batches_ = batches;
  } catch (const nlohmann::json::exception& error) {
    fail(ExitCode::Data, "the checkpoint's data cursor is damaged: {}", error.what());
  }
}

}  // namespace tessera
