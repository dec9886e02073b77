// SPDX-License-Identifier: Apache-2.0
#include "framework/comm/sent_bytes.h"

#include "framework/base/check.h"

namespace tessera {

int64_t all_gather_sent_bytes(int64_t shard_bytes, int size) {
  return shard_bytes * (size - 1);
}

int64_t reduce_scatter_sent_bytes(int64_t shard_bytes, int size) {
  return shard_bytes * (size - 1);
}

int64_t broadcast_sent_bytes(int64_t bytes, int size, int rank, int root) {
  const bool last = (rank - root + size) % size == size - 1;
  return last ? 0 : bytes;
}

int64_t host_sent_bytes(int64_t bytes, int size) {
  return bytes * (size - 1);
}

int64_t sent_bytes(const Call& call, int size, int rank) {
  switch (call.kind) {
    case TrafficKind::AllReduce:
      return call.plan->sent_bytes(call.send.elements(), call.send.dtype());
    case TrafficKind::AllGather:
      return all_gather_sent_bytes(call.send.bytes(), size);
    case TrafficKind::ReduceScatter:
      return reduce_scatter_sent_bytes(call.receive.bytes(), size);
    case TrafficKind::AllToAll:
      return (call.send.elements() - call.send_counts[static_cast<size_t>(rank)]) *
             size_of(call.send.dtype());
    case TrafficKind::Broadcast:
      return broadcast_sent_bytes(call.send.bytes(), size, rank, call.root);
    case TrafficKind::Exchange: {
      int64_t bytes = 0;
      for (const PeerOp& operation : call.operations)
        if (operation.kind == PeerOp::Kind::Send) bytes += operation.tensor.bytes();
      return bytes;
    }
    case TrafficKind::Host:
      break;
  }
  fail(ExitCode::Communication, "no byte count is known for {}", call.text);
}

}  // namespace tessera
