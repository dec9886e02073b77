// SPDX-License-Identifier: Apache-2.0
#include "framework/parallel/data/parameter_gatherer.h"

#include <exception>

#include "framework/ops/memory.h"

namespace tessera {

ParameterGatherer::ParameterGatherer(FlatBuffers& buffers, Communicator& group, Backend& backend,
                                     bool overlap)
    : buffers_(buffers),
      group_(group),
      backend_(backend),
      overlap_(overlap),
      pending_(buffers.buckets().size()),
      users_(buffers.buckets().size()) {}

ParameterGatherer::~ParameterGatherer() {
  if (std::uncaught_exceptions() > 0) return;
  try {
    wait_all();
  } catch (const std::exception&) {  // another rank failed, and says so itself
  }
}

void ParameterGatherer::start(int index) {
  const Bucket& bucket = buffers_.buckets()[static_cast<size_t>(index)];
  Work& work = pending_[static_cast<size_t>(index)];
  work = group_.all_gather(bucket.value_shard, bucket.values, backend_.compute_stream());
  if (!overlap_) wait_bucket(index);
}

void ParameterGatherer::gather_updated() {
  if (group_.size() == 1 || buffers_.options().stage == ZeroStage::Parameters) return;
  // The last bucket has the first unit.
  for (int bucket = static_cast<int>(pending_.size()); bucket-- > 0;) start(bucket);
}

void ParameterGatherer::gather(int unit) {
  for (const int index : buffers_.buckets_of_unit(unit)) {
    if (users_[static_cast<size_t>(index)]++ > 0) continue;
    const Bucket& bucket = buffers_.buckets()[static_cast<size_t>(index)];
    buffers_.set_values(index, empty(backend_, bucket.value_shard.dtype(), {bucket.elements}));
    start(index);
  }
}

void ParameterGatherer::drop(int unit) {
  for (const int index : buffers_.buckets_of_unit(unit)) {
    CHECK(users_[static_cast<size_t>(index)] > 0, "unit {} drops parameters that it has not gathered", unit);
    if (--users_[static_cast<size_t>(index)] > 0) continue;
    wait_bucket(index);
    buffers_.set_values(index, {});
  }
}

void ParameterGatherer::wait_bucket(int bucket) {
  pending_[static_cast<size_t>(bucket)].wait(backend_.compute_stream());
}

void ParameterGatherer::wait(int unit) {
  for (const int bucket : buffers_.buckets_of_unit(unit)) wait_bucket(bucket);
}

void ParameterGatherer::wait_all() {
  for (int bucket = 0; bucket < static_cast<int>(pending_.size()); ++bucket) wait_bucket(bucket);
}

}  // namespace tessera
