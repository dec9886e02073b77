// SPDX-License-Identifier: Apache-2.0
// The files of a run other than checkpoints: config.toml, metrics.jsonl, metrics.lost.jsonl, train.log. Only
// rank 0 uses it. Nothing is written before begin().
#pragma once
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>

#include "framework/base/quantity.h"

namespace tessera {

class RunFolder {
 public:
  explicit RunFolder(std::filesystem::path folder) : folder_(std::move(folder)) {}

  const std::filesystem::path& path() const { return folder_; }
  std::filesystem::path log_file() const { return folder_ / "train.log"; }
  std::filesystem::path metrics_file() const { return folder_ / "metrics.jsonl"; }
  std::filesystem::path lost_metrics_file() const { return folder_ / "metrics.lost.jsonl"; }
  std::filesystem::path event_folder() const { return folder_ / "tensorboard"; }  // of EventFile
  bool holds_a_run() const;  // a config, metrics or checkpoints are there

  // Makes the folder and writes config.toml. Metrics of steps after `resumed` move to metrics.lost.jsonl, so
  // that metrics.jsonl reads as if the run had never stopped; a half-written last line goes there too.
  void begin(std::string_view config_toml, Steps resumed);
  // One JSON object without newline. Reaches the kernel before the call returns.
  void append_metrics(std::string_view line);

 private:
  std::filesystem::path folder_;
  std::ofstream metrics_;
};

// The step that a line of metrics.jsonl or data.jsonl is about; nothing for one that is no whole JSON object
// with a step, as a crash leaves it.
std::optional<Steps> step_of_line(const std::string& line);

// Writes through a temporary file, fsync and rename: readers see the old file or the new one.
void write_file_atomically(const std::filesystem::path& path, std::string_view content);

}  // namespace tessera
