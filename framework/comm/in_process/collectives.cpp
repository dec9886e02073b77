// SPDX-License-Identifier: Apache-2.0
// The collectives themselves, once every rank has come: each rank's backend reduces that rank's chunk and
// makes that rank's copies.
#include <numeric>

#include "framework/base/check.h"
#include "framework/comm/in_process/world.h"
#include "framework/comm/reduce_terms.h"
#include "framework/mesh/shard_spec.h"

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

void all_reduce(const Ranks& ranks) {
  const int64_t elements = ranks.call(0).send.elements();
  const auto chunk = [&](int of, int owner) {
    const Range range = part_of(elements, ranks.size(), owner);
    return ranks.call(of).send.narrow(range.begin, range.size());
  };
  for (int r = 0; r < ranks.size(); ++r) {
    std::vector<Tensor> terms;
    for (int from = 0; from < ranks.size(); ++from) terms.push_back(chunk(from, r));
    if (chunk(r, r).elements() > 0)
      reduce_terms(ranks.backend(r), terms, terms[static_cast<size_t>(r)], ranks.call(r).op);
  }
  ranks.synchronize();
  for (int to = 0; to < ranks.size(); ++to)
    for (int r = 0; r < ranks.size(); ++r) copy_unless_same(ranks.backend(to), chunk(r, r), chunk(to, r));
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
