// SPDX-License-Identifier: Apache-2.0
// Bytes of tensor data that one rank of `size` sends in a call: the algorithms' own figures, which are the
// least possible in total. Headers of calls are not counted.
#pragma once
#include <cstdint>

#include "framework/comm/transport.h"

namespace tessera {

// The elements of each rank's chunk are cut by part_of: (size - 1) / size of the data to reduce, as much
// again to gather.
int64_t all_reduce_sent_bytes(int64_t elements, DType dtype, int size, int rank);
int64_t all_gather_sent_bytes(int64_t shard_bytes, int size);
int64_t reduce_scatter_sent_bytes(int64_t shard_bytes, int size);
// A chain from the root: everybody but the last rank sends the data once.
int64_t broadcast_sent_bytes(int64_t bytes, int size, int rank, int root);
int64_t host_sent_bytes(int64_t bytes, int size);  // to every other rank

int64_t sent_bytes(const Call& call, int size, int rank);

}  // namespace tessera
