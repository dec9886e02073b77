// SPDX-License-Identifier: Apache-2.0
#include "framework/parallel/data/shared_gradients.h"

#include "framework/ops/copy.h"
#include "framework/ops/memory.h"

namespace tessera {
namespace {

// The place of a parameter's box in a message that holds whole logical tensors.
Tensor place_of(const Parameter& parameter, const Tensor& message, int64_t begin) {
  const Shape& shape = parameter.spec.shape;
  const Box& box = parameter.box;
  const Tensor rows =
      message.narrow(begin, shape.elements()).reshape(shape).narrow(box.offset[0], box.extent[0]);
  return box.offset.size() < 2 ? rows : rows.columns(box.offset[1], box.extent[1]);
}

}  // namespace

bool has_terms_along(const ParameterSpec& spec, Axis axis, int ranks) {
  if (ranks == 1) return false;
  if (spec.shard.partial_gradient.contains(axis)) return true;
  for (const ShardSpec::Split& split : spec.shard.splits)
    if (split.axis == axis && split.overlaps(spec.shape, ranks)) return true;
  return false;
}

SharedGradients::SharedGradients(const ParameterStore& store, const FlatBuffers& buffers,
                                 Communicator& tensor_group, Backend& backend)
    : group_(tensor_group), backend_(backend) {
  for (size_t i = 0; i < store.parameters().size(); ++i) {
    const Parameter& parameter = store.parameters()[i];
    if (!is_trained(parameter.spec) || !has_terms_along(parameter.spec, Axis::Tensor, tensor_group.size()))
      continue;
    const BucketPlace place = buffers.place_of(i);
    OfBucket& bucket = buckets_[place.bucket];
    bucket.entries.push_back({&parameter, place.begin, bucket.elements});
    bucket.elements += parameter.spec.shape.elements();
  }
}

Work SharedGradients::start(int index) {
  const auto found = buckets_.find(index);
  if (found == buckets_.end()) return {};
  OfBucket& bucket = found->second;
  const Tensor& first = bucket.entries.front().parameter->gradient;
  bucket.message = zeros(backend_, first.dtype(), {bucket.elements});
  for (const Entry& entry : bucket.entries)
    copy(backend_, entry.parameter->gradient, place_of(*entry.parameter, bucket.message, entry.in_message));
  return group_.all_reduce(bucket.message, Reduce::Sum, backend_.compute_stream());
}

void SharedGradients::finish(int index, const Tensor& whole) {
  const auto found = buckets_.find(index);
  if (found == buckets_.end()) return;
  OfBucket& bucket = found->second;
  for (const Entry& entry : bucket.entries) {
    const Shape shape(std::span<const int64_t>(entry.parameter->box.extent));
    copy(backend_, place_of(*entry.parameter, bucket.message, entry.in_message),
         whole.narrow(entry.in_bucket, shape.elements()).reshape(shape));
  }
  bucket.message = {};
}

}  // namespace tessera
