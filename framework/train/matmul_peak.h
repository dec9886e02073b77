// SPDX-License-Identifier: Apache-2.0
// The rate that MFU is a share of on a CPU.
#pragma once
#include "framework/ops/backend.h"

namespace tessera {

// Operations per second of the best of 10 products of 2048 x 2048 matrices on this backend, with its
// threads. Takes 17 GFLOP a product.
double measure_matmul_peak(Backend& backend, DType dtype);

}  // namespace tessera
