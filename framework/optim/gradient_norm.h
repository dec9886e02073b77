// SPDX-License-Identifier: Apache-2.0
// The global gradient norm and the factor that clips to it. Each logical element counts once; the norm is
// not finite exactly when some gradient is not.
#pragma once
#include <span>

#include "framework/nn/parameter.h"
#include "framework/ops/backend.h"

namespace tessera {

// Sum of squares over the shards, parameter by parameter in the table's order, in double.
double sum_of_squares(std::span<const ParameterShard> shards, Backend& backend);

// min(1, clip / norm); 1 when clip is 0 (no clipping).
double clip_factor(double norm, double clip);

}  // namespace tessera
