// SPDX-License-Identifier: Apache-2.0
// The part of a config that is decided only when the number of ranks is known: dp = -1, the batch key that
// was left out, and steps from samples or tokens.
#pragma once
#include <cstdint>

#include "framework/config/run_config.h"

namespace tessera {

// tp * sp * dp * pp, with dp = -1 taken as 1: the ranks of a run that nobody launched.
int64_t mesh_ranks(const RunConfig& config);
// Stages that each rank of the pipeline has: one, virtual_stages, or two of a V form.
int64_t stages_per_rank(const ParallelSection& parallel);

// Sets every [mesh] field. Throws Error(Usage), naming the keys, the numbers and the nearest sizes that
// work, when the mesh does not cover world_size exactly or the batch keys contradict each other. A config
// that is already resolved stays as it is.
void resolve_parallel(RunConfig& config, int64_t world_size);

}  // namespace tessera
