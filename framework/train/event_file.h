// SPDX-License-Identifier: Apache-2.0
// The event file that a process of a run writes for TensorBoard (logging.tensorboard). Every start of a run
// writes a file of its own, so steps that a crash undid stand in an older one; the first record of a new file
// takes them back. Only rank 0 uses it.
#pragma once
#include <filesystem>
#include <fstream>
#include <string_view>

#include "framework/train/event_record.h"

namespace tessera {

class EventFile {
 public:
  // Makes the folder, and in it a file for the steps from `first` on. Throws Error(Data).
  EventFile(const std::filesystem::path& folder, Steps first);

  // Reaches the kernel before the call returns. Throws Error(Data), on a full disk for example.
  void write(Steps step, const EventSummary& summary);

 private:
  void append(std::string_view message);

  std::filesystem::path path_;
  std::ofstream file_;
};

}  // namespace tessera
