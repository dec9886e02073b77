// SPDX-License-Identifier: Apache-2.0
// The ledger of a run's data, data.jsonl in its folder: the data cursor at each start, with the config that
// holds from there, and at each checkpoint. The order of samples is a function of config and cursor, so these
// few lines say which documents any step trained, whatever was changed on resume.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "framework/base/quantity.h"

namespace tessera {

struct LedgerEntry {
  Steps step{0};       // finished when `cursor` was taken
  std::string cursor;  // as Dataset::cursor
  std::string config;  // resolved TOML of the start that the entry follows
};

class DataLedger {
 public:
  explicit DataLedger(const std::filesystem::path& run_folder) : path_(run_folder / "data.jsonl") {}

  // At a start that goes on after step `resumed`: what later steps left, which are undone, is taken away. A
  // line that a crash cut goes too.
  void begin(Steps resumed, std::string_view cursor, std::string_view config_toml) const;
  void note(Steps step, std::string_view cursor) const;

  // The last entry of before `step` (counted from 1). Throws (exit 3) when there is none, or the ledger is
  // damaged.
  LedgerEntry before(Steps step) const;

 private:
  std::filesystem::path path_;
};

}  // namespace tessera
