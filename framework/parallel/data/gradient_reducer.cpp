// SPDX-License-Identifier: Apache-2.0
#include "framework/parallel/data/gradient_reducer.h"

#include "framework/ops/memory.h"

namespace tessera {
namespace {

// Whole gradients that leave stay until their reduction ends. So that memory does not depend on how fast that
// is, no more than these are under way at a time.
constexpr size_t kMostLeaving = 2;

}  // namespace

GradientReducer::GradientReducer(FlatBuffers& buffers, ParameterStore& store, const GradientGroups& groups,
                                 Backend& backend, const GradientReducerOptions& options)
    : buffers_(buffers),
      shared_(store, buffers, groups.tensor, backend),
      groups_(groups),
      backend_(backend),
      options_(options) {}

void GradientReducer::start(int bucket) {
  if (groups_.data.size() == 1 && !shared_.any() && !buffers_.gradients_leave()) return;
  if (!options_.overlap && !buffers_.gradients_leave()) {
    waiting_.push_back(bucket);
    return;
  }
  // Gradients that leave must: later terms go into a new buffer.
  launch(bucket);
  if (!options_.overlap) drain(0);
}

// Waits for the oldest until no more than `most` are under way.
void GradientReducer::drain(size_t most) {
  reduce_shared();
  while (pending_.size() > most) {
    complete(pending_.front());
    pending_.pop_front();
  }
}

void GradientReducer::launch(int bucket) {
  if (buffers_.gradients_leave())
    drain(kMostLeaving - 1);
  else
    reduce_shared();
  Work shared = shared_.start(bucket);
  const Tensor whole = buffers_.gradients_leave() ? buffers_.take_gradients(bucket)
                                                  : buffers_.buckets()[static_cast<size_t>(bucket)].gradients;
  pending_.push_back({bucket, whole, {}, true, std::move(shared)});
  if (!shared_.has(bucket)) reduce_shared();
}

// Buckets whose sums over tensor ranks were under way go on to the data ranks, in order.
void GradientReducer::reduce_shared() {
  for (Pending& pending : pending_) {
    if (!pending.shared) continue;
    pending.work.wait(backend_.compute_stream());
    shared_.finish(pending.bucket, pending.whole);
    pending.shared = false;
    reduce(pending);
  }
}

void GradientReducer::reduce(Pending& pending) {
  const DType type = pending.whole.dtype() == DType::F64 ? DType::F64 : options_.wire;
  pending.wire = converted(backend_, pending.whole, type);
  Stream& stream = backend_.compute_stream();
  if (!options_.shards) {
    pending.work = groups_.data.all_reduce(pending.wire, Reduce::Sum, stream);
    return;
  }
  const Range shard = buffers_.buckets()[static_cast<size_t>(pending.bucket)].shard;
  pending.work = groups_.shards.reduce_scatter(pending.wire, pending.wire.narrow(shard.begin, shard.size()),
                                               Reduce::Sum, stream);
}

void GradientReducer::complete(Pending& pending) {
  pending.work.wait(backend_.compute_stream());
  const Bucket& bucket = buffers_.buckets()[static_cast<size_t>(pending.bucket)];
  const Tensor sums =
      options_.shards ? pending.wire.narrow(bucket.shard.begin, bucket.shard.size()) : pending.wire;
  const Tensor& target = options_.shards ? bucket.gradient_shard : bucket.gradients;
  if (buffers_.gradients_leave())
    backend_.add(target, converted(backend_, sums, target.dtype()), target);
  else if (sums.dtype() != target.dtype())
    backend_.copy(sums, target);
}

void GradientReducer::finish() {
  for (const int bucket : waiting_) launch(bucket);
  waiting_.clear();
  drain(0);
  if (options_.shards) sum_shards(groups_.replicas, [](const Bucket&) { return true; });
  sum_shards(groups_.tied, [](const Bucket& bucket) { return bucket.tied; });
}

template <class F>
void GradientReducer::sum_shards(Communicator& group, F&& wanted) {
  if (group.size() == 1) return;
  struct Sum {
    Tensor shard, wire;
    Work work;
  };
  std::vector<Sum> sums;
  for (const Bucket& bucket : buffers_.buckets()) {
    if (!wanted(bucket)) continue;
    const Tensor& shard = bucket.gradient_shard;
    const Tensor wire = converted(backend_, shard, shard.dtype() == DType::F64 ? DType::F64 : options_.wire);
    sums.push_back({shard, wire, group.all_reduce(wire, Reduce::Sum, backend_.compute_stream())});
  }
  for (Sum& sum : sums) {
    sum.work.wait(backend_.compute_stream());
    if (sum.wire.dtype() != sum.shard.dtype()) backend_.copy(sum.wire, sum.shard);
  }
}

}  // namespace tessera
