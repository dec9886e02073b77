// SPDX-License-Identifier: Apache-2.0
// A product of tensors as the matrix product on raw memory takes it.
#pragma once
#include "framework/backends/cpu/gemm.h"
#include "framework/ops/backend.h"

namespace tessera::cpu {

// Everything but the workspace. Reads no memory, so it serves planning without data, too.
GemmArgs gemm_args(const MatmulArgs& args, int threads);

}  // namespace tessera::cpu
