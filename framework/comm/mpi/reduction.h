// SPDX-License-Identifier: Apache-2.0
// All-reduce and reduce-scatter over messages, whatever the algorithm: a reduction plan carried out piece by
// piece.
#pragma once
#include <memory>

#include "framework/comm/mpi/operation.h"

namespace tessera::messages {

std::unique_ptr<Algorithm> make_reduction(Operation& operation);

}  // namespace tessera::messages
