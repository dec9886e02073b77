// SPDX-License-Identifier: Apache-2.0
#include "framework/parallel/data/gradient_reducer.h"

#include "framework/ops/memory.h"

namespace tessera {

void GradientReducer::start(int bucket) {
  if (group_.size() == 1) return;
  if (options_.overlap)
    launch(bucket);
  else
    waiting_.push_back(bucket);
}

void GradientReducer::launch(int bucket) {
  const Tensor& gradients = buckets_[static_cast<size_t>(bucket)].gradients;
  const DType wire_type = gradients.dtype() == DType::F64 ? DType::F64 : options_.wire;
  const Tensor wire = converted(backend_, gradients, wire_type);
  pending_.push_back({bucket, wire, group_.all_reduce(wire, Reduce::Sum, backend_.compute_stream())});
}

void GradientReducer::finish() {
  for (const int bucket : waiting_) launch(bucket);
  waiting_.clear();
  for (Pending& pending : pending_) {
    pending.work.wait(backend_.compute_stream());
    const Tensor& gradients = buckets_[static_cast<size_t>(pending.bucket)].gradients;
    if (pending.wire.dtype() != gradients.dtype()) backend_.copy(pending.wire, gradients);
  }
  pending_.clear();
}

}  // namespace tessera
