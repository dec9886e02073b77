// SPDX-License-Identifier: Apache-2.0
// One rank of a world of any size whose other ranks do not exist: nothing moves, bytes are counted as the
// real transports count them. For planning one rank of many.
#pragma once
#include <memory>

#include "framework/comm/communicator.h"
#include "framework/ops/backend.h"

namespace tessera {

// Host values agree as if every rank had this rank's; groups are made with subgroup (split would have to
// ask the other ranks).
std::unique_ptr<Communicator> make_shape_world(int size, int rank, Backend& backend);

}  // namespace tessera
