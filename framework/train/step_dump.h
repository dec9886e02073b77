// SPDX-License-Identifier: Apache-2.0
// debug/step_N.h5: the samples, parameters and gradients of one step in logical shape, for comparing runs and
// programs tensor by tensor (debug.dump_steps).
#pragma once
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "framework/train/data_feed.h"
#include "framework/train/rank.h"

namespace tessera {

class StepDump {
 public:
  static constexpr int64_t kLargestBytes = int64_t{8} << 30;  // without debug.allow_large

  static bool wanted(const DebugSection& debug, Steps step);

  // Both calls are collective. Before the step: takes a host copy of the parameters as the step will use
  // them. Throws Error(Usage) when the dump would be larger than 8 GiB.
  StepDump(Rank& rank, const RunConfig& config);

  // After it: takes the gradients as they entered clipping and writes folder/step_00000001.h5 through a
  // temporary file. Only rank 0 writes.
  void write(const std::filesystem::path& folder, Steps step, const DataFeed::GlobalBatch& global,
             const Dataset& dataset, const StepResult& result);

 private:
  struct Entry {
    std::string path;
    DType dtype;
    Shape shape;
    std::vector<std::byte> bytes;
  };
  template <class T>
  void add(std::string path, Shape shape, const std::vector<T>& values);
  void add_samples(const DataFeed::GlobalBatch& global, const Dataset& dataset);
  void add_gradients(double scale);

  Rank& rank_;
  const RunConfig& config_;
  std::vector<Entry> entries_;
};

}  // namespace tessera
