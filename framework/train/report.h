// SPDX-License-Identifier: Apache-2.0
// What `train --print` shows: the parameter table and the plan of a step, before anything runs.
#pragma once
#include <string>

#include "framework/config/run_config.h"
#include "framework/nn/model.h"

namespace tessera {

// One line a logical tensor: shape, role, unit, start, weight decay, where it lies, over which axes its
// gradient is summed, and which ranks answer for it. tests/fixtures/parameters keeps these tables.
std::string parameter_report(const RunConfig& config, const ModelDefinition& model);

// The actions of each rank in one step, then the learning rate of every step in full precision.
std::string schedule_report(const RunConfig& config, const ModelDefinition& model);

}  // namespace tessera
