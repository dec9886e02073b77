// SPDX-License-Identifier: Apache-2.0
// Bytes of tensor data that one rank of `size` sends in a call. Headers of calls are not counted. What an
// all-reduce sends depends on its algorithm: ReductionPlan::sent_bytes.
#pragma once
#include <cstdint>

#include "framework/comm/transport.h"

namespace tessera {

int64_t all_gather_sent_bytes(int64_t shard_bytes, int size);
int64_t reduce_scatter_sent_bytes(int64_t shard_bytes, int size);
// A chain from the root: everybody but the last rank sends the data once.
int64_t broadcast_sent_bytes(int64_t bytes, int size, int rank, int root);
int64_t host_sent_bytes(int64_t bytes, int size);  // to every other rank

int64_t sent_bytes(const Call& call, int size, int rank);

}  // namespace tessera
