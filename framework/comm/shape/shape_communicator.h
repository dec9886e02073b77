// SPDX-License-Identifier: Apache-2.0
// One rank of a world of any size whose other ranks do not exist: nothing moves, bytes are counted as the
// real transports count them. For planning one rank of many.
#pragma once
#include <cstdint>
#include <memory>

#include "framework/comm/communicator.h"
#include "framework/ops/backend.h"

namespace tessera {

enum class ShapeRanks : uint8_t { Threads, Processes };

// The ranks imitated: a reduction between processes holds pieces of the other ranks in memory of the
// backend, which are counted as allocated and released in the call. Threads need none.
// Host values agree as if every rank had this rank's; groups are made with subgroup (split would have to
// ask the other ranks).
std::unique_ptr<Communicator> make_shape_world(int size, int rank, Backend& backend,
                                               ShapeRanks ranks = ShapeRanks::Threads);

}  // namespace tessera
