// SPDX-License-Identifier: Apache-2.0
// The composition root: the only place that knows all parts of a run. Every rank calls train() with the same
// request; what needs one answer (the checkpoint to resume, a signal to stop) is agreed before anyone acts.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "framework/base/log.h"
#include "framework/comm/communicator.h"
#include "framework/config/run_config.h"
#include "framework/nn/model.h"
#include "framework/train/stop_flag.h"

namespace tessera {

struct ResumePolicy {
  enum class Kind : uint8_t { Auto, None, Required, Folder };
  Kind kind = Kind::Auto;
  std::filesystem::path folder = {};  // of Folder: a checkpoint or a run
};

struct TrainRequest {
  const RunConfig& config;  // resolved for the world's size
  const ModelDefinition& model;
  ResumePolicy resume = {};
  std::vector<std::string> allow_change = {};  // keys that may differ from the resumed run
  bool eval_only = false;
  int64_t planned_peak_bytes = 0;  // of a rank, as --check predicts it; compared at the end. 0: not known
};

struct RankEnvironment {
  Communicator& world;
  Backend& backend;
  Log& log;
  StopFlag& stop;
};

enum class TrainOutcome : uint8_t { Finished, Stopped };

TrainOutcome train(const TrainRequest& request, RankEnvironment environment);

}  // namespace tessera
