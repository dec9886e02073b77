// SPDX-License-Identifier: Apache-2.0
// Updates of flat ranges of parameters, checked. The argument structs are those of the backend.
#pragma once
#include "framework/ops/backend.h"

namespace tessera {

void adamw(Backend& backend, const AdamwArgs& args);
void sgd(Backend& backend, const SgdArgs& args);

}  // namespace tessera
