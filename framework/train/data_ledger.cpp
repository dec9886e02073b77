// SPDX-License-Identifier: Apache-2.0
#include "framework/train/data_ledger.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "framework/base/check.h"
#include "framework/train/run_folder.h"

namespace tessera {
namespace {

std::string line_of(Steps step, std::string_view cursor, std::string_view config) {
  nlohmann::ordered_json json = {{"step", step.value}, {"cursor", cursor}};
  if (!config.empty()) json["config"] = config;
  return json.dump() + "\n";
}

}  // namespace

void DataLedger::begin(Steps resumed, std::string_view cursor, std::string_view config_toml) const {
  std::string kept;
  std::ifstream old(path_);
  for (std::string line; std::getline(old, line);) {
    const auto step = step_of_line(line);
    if (step && *step <= resumed) kept += line + "\n";
  }
  write_file_atomically(path_, kept + line_of(resumed, cursor, config_toml));
}

void DataLedger::note(Steps step, std::string_view cursor) const {
  std::ofstream out(path_, std::ios::app);
  out << line_of(step, cursor, {}) << std::flush;
  CHECK_AS(ExitCode::Data, out.good(), "cannot write {}", path_.string());
}

LedgerEntry DataLedger::before(Steps step) const {
  std::ifstream in(path_);
  CHECK_AS(ExitCode::Data, in.is_open(), "{} cannot be read: it says where the data of a run's steps began",
           path_.string());
  LedgerEntry found{.step = Steps(-1)};
  std::string config;
  std::optional<Steps> first;
  int64_t number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    try {
      const nlohmann::json json = nlohmann::json::parse(line);
      if (json.contains("config")) config = json.at("config").get<std::string>();
      const Steps done(json.at("step").get<int64_t>());
      if (!first) first = done;
      if (done < step)
        found = {.step = done, .cursor = json.at("cursor").get<std::string>(), .config = config};
    } catch (const nlohmann::json::exception& error) {
      if (in.eof()) break;  // a crash cut the last line
      fail(ExitCode::Data, "{}:{}: {}", path_.string(), number, error.what());
    }
  }
  CHECK_AS(ExitCode::Data, first.has_value(), "{} is empty", path_.string());
  CHECK_AS(ExitCode::Data, found.step.value >= 0 && !found.config.empty(),
           "{} begins after step {}: step {} was trained in another folder", path_.string(), first->value,
           step.value);
  return found;
}

}  // namespace tessera
