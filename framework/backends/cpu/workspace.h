// SPDX-License-Identifier: Apache-2.0
// How much scratch each call of the CPU backend reserves. The kernels reserve what these formulas say, and
// the shape backend plans with them.
#pragma once
#include <memory>

#include "framework/ops/workspace.h"

namespace tessera {

std::shared_ptr<const WorkspaceModel> make_cpu_workspace_model(int threads);

}  // namespace tessera
