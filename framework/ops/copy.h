// SPDX-License-Identifier: Apache-2.0
// Copies between tensors of one shape; element types may differ when both are floating point.
#pragma once
#include "framework/ops/backend.h"

namespace tessera {

void copy(Backend& backend, const Tensor& from, const Tensor& to);

}  // namespace tessera
