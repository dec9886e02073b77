// SPDX-License-Identifier: Apache-2.0
// The collectives themselves, once every rank has come: each rank's backend makes that rank's sums and
// copies.
#include <numeric>

#include "framework/base/check.h"
#include "framework/comm/in_process/world.h"
#include "framework/comm/reduce_terms.h"

namespace tessera::in_process {

namespace {

// The calls of all ranks, and their backends.
struct Ranks {
  const Group& group;
  Collective& collective;

  int size() const { return group.size(); }
  Backend& backend(int rank) const { return *group.backends[static_cast<size_t>(rank)]; }
  const Call& call(int rank) const { return *collective.calls[static_cast<size_t>(rank)]; }
  // What one rank's backend has been given is done before another's goes on.
  void synchronize() const {
    for (Backend* backend : group.backends) backend->compute_stream().synchronize();
  }
};

// One chunk of an all-reduce.
class ChunkTree {
 public:
  ChunkTree(const Ranks& ranks, int chunk) : ranks_(ranks), chunk_(chunk) {}

  bool is_root(int rank) const { return place(rank).parent < 0; }
  // Leaves the sum of the ranks below `rank` in its own part.
  void reduce_to(int rank) const {
    for (const int child : place(rank).children(rank)) reduce_to(child);
    for (const std::vector<int>& terms : place(rank).additions) {
      std::vector<Tensor> parts;
      for (const int term : terms) parts.push_back(part(term));
      reduce_terms(ranks_.backend(rank), parts, part(rank), ranks_.call(rank).op);
    }
    ranks_.backend(rank).compute_stream().synchronize();
  }
  void copy_from(int rank) const {
    for (const int child : place(rank).children(rank)) {
      copy_unless_same(ranks_.backend(child), part(rank), part(child));
      ranks_.backend(child).compute_stream().synchronize();
      copy_from(child);
    }
  }
  bool empty() const { return part(0).elements() == 0; }

 private:
  const ChunkPlace& place(int rank) const {
    return ranks_.call(rank).plan->chunks[static_cast<size_t>(chunk_)];
  }
  Tensor part(int rank) const {
    const Call& call = ranks_.call(rank);
    const Range range = call.plan->range(call.send.elements(), chunk_);
    return call.send.narrow(range.begin, range.size());
  }

  const Ranks& ranks_;
  const int chunk_;
};

void all_reduce(const Ranks& ranks) {
  const auto chunks = static_cast<int>(ranks.call(0).plan->chunks.size());
  for (int chunk = 0; chunk < chunks; ++chunk) {
    const ChunkTree tree(ranks, chunk);
    if (tree.empty()) continue;
    for (int r = 0; r < ranks.size(); ++r) {
      if (!tree.is_root(r)) continue;
      tree.reduce_to(r);
      tree.copy_from(r);
    }
  }
}

void all_gather(const Ranks& ranks) {
  const int64_t count = ranks.call(0).send.elements();
  for (int to = 0; to < ranks.size(); ++to)
    for (int from = 0; from < ranks.size(); ++from)
      copy_unless_same(ranks.backend(to), ranks.call(from).send,
                       ranks.call(to).receive.narrow(from * count, count));
}

void reduce_scatter(const Ranks& ranks) {
  const int64_t count = ranks.call(0).receive.elements();
  if (count == 0) return;
  for (int to = 0; to < ranks.size(); ++to) {
    std::vector<Tensor> terms;
    for (int from = 0; from < ranks.size(); ++from)
      terms.push_back(ranks.call(from).send.narrow(to * count, count));
    reduce_terms(ranks.backend(to), terms, ranks.call(to).receive, ranks.call(to).op);
  }
}

void all_to_all(const Ranks& ranks) {
  // Where the part of each rank begins in the tensor of another.
  const auto offset = [](const std::vector<int64_t>& counts, int rank) {
    return std::accumulate(counts.begin(), counts.begin() + rank, int64_t{0});
  };
  for (int to = 0; to < ranks.size(); ++to) {
    for (int from = 0; from < ranks.size(); ++from) {
      const Call &send = ranks.call(from), &receive = ranks.call(to);
      const int64_t sent = send.send_counts[static_cast<size_t>(to)];
      const int64_t expected = receive.receive_counts[static_cast<size_t>(from)];
      CHECK(sent == expected, "{} sends {} elements to {}, which expects {}", ranks.group.rank_text(from),
            sent, ranks.group.rank_text(to), expected);
      copy_unless_same(ranks.backend(to), send.send.narrow(offset(send.send_counts, to), sent),
                       receive.receive.narrow(offset(receive.receive_counts, from), sent));
    }
  }
}

void broadcast(const Ranks& ranks) {
  const int root = ranks.call(0).root;
  for (int to = 0; to < ranks.size(); ++to)
    copy_unless_same(ranks.backend(to), ranks.call(root).send, ranks.call(to).receive);
}

void run_kind(const Ranks& ranks) {
  switch (ranks.call(0).kind) {
    case TrafficKind::AllReduce:
      return all_reduce(ranks);
    case TrafficKind::AllGather:
      return all_gather(ranks);
    case TrafficKind::ReduceScatter:
      return reduce_scatter(ranks);
    case TrafficKind::AllToAll:
      return all_to_all(ranks);
    case TrafficKind::Broadcast:
      return broadcast(ranks);
    case TrafficKind::Exchange:  // never a collective
    case TrafficKind::Host:      // the bytes are there already
      return;
  }
}

}  // namespace

void run_collective(const Group& group, Collective& collective) {
  const Ranks ranks{group, collective};
  if (ranks.call(0).kind == TrafficKind::Host) return;
  for (int r = 0; r < ranks.size(); ++r) ranks.call(r).after->synchronize();
  run_kind(ranks);
  ranks.synchronize();
}

}  // namespace tessera::in_process
