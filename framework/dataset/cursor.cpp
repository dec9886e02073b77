// SPDX-License-Identifier: Apache-2.0
// The cursor's JSON form.
#include <nlohmann/json.hpp>

#include "framework/base/check.h"
#include "framework/dataset/dataset.h"

namespace tessera {
namespace {

constexpr int kCursorVersion = 1;

struct SavedSource {
  double weight = 0;
  int64_t taken = 0, taken_before = 0;
};

// The saved state of `report`'s source, or none when it is a new one.
std::optional<SavedSource> find_saved(const nlohmann::json& saved, const SourceReport& report) {
  for (const nlohmann::json& source : saved) {
    if (source.at("name").get<std::string>() != report.name) continue;
    const auto fingerprint = source.at("fingerprint").get<std::string>();
    CHECK_AS(ExitCode::Data, fingerprint == report.fingerprint,
             "source {}: {} is not the data that the checkpoint was trained on (fingerprint {}, then {})",
             report.name, report.path, report.fingerprint, fingerprint);
    const auto samples = source.at("train_samples").get<int64_t>();
    CHECK_AS(
        ExitCode::Data, samples == report.train_samples,
        "source {}: an epoch has {} samples and had {} in the checkpoint; data.split must stay as it was",
        report.name, report.train_samples, samples);
    const SavedSource state = {.weight = source.at("weight").get<double>(),
                               .taken = source.at("taken").get<int64_t>(),
                               .taken_before = source.at("taken_before").get<int64_t>()};
    CHECK_AS(ExitCode::Data, state.taken_before >= 0 && state.taken >= state.taken_before,
             "source {}: the checkpoint's cursor is damaged ({} samples taken, {} before)", report.name,
             state.taken, state.taken_before);
    return state;
  }
  return std::nullopt;
}

}  // namespace

std::string Dataset::cursor() const {
  nlohmann::ordered_json sources = nlohmann::ordered_json::array();
  for (size_t i = 0; i < sources_.size(); ++i) {
    const SourceReport& report = sources_[i].report();
    sources.push_back({{"name", report.name},
                       {"path", report.path},
                       {"fingerprint", report.fingerprint},
                       {"weight", weights_[i]},
                       {"train_samples", report.train_samples},
                       {"taken", taken_before_[i] + mixture_.taken()[i]},
                       {"taken_before", taken_before_[i]}});
  }
  const nlohmann::ordered_json json = {{"version", kCursorVersion},
                                       {"samples", position_.value},
                                       {"seq_length", options_.samples.seq_length},
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
    const nlohmann::json& saved = json.at("sources");
    // The same sources with the same weights go on in the middle of the mixture; others begin a new one.
    bool same_mixture = saved.size() == sources_.size();
    std::vector<int64_t> taken, before;
    for (size_t i = 0; i < sources_.size(); ++i) {
      const std::optional<SavedSource> state = find_saved(saved, sources_[i].report());
      same_mixture = same_mixture && state && state->weight == weights_[i];
      taken.push_back(state ? state->taken : 0);
      before.push_back(state ? state->taken_before : 0);
    }
    if (!same_mixture) before = taken;
    std::vector<int64_t> since(taken.size());
    for (size_t i = 0; i < taken.size(); ++i) since[i] = taken[i] - before[i];
    mixture_ = Mixture(weights_, since);
    taken_before_ = before;
    position_ = Samples(json.at("samples").get<int64_t>());
  } catch (const nlohmann::json::exception& error) {
    fail(ExitCode::Data, "the checkpoint's data cursor is damaged: {}", error.what());
  }
}

}  // namespace tessera
