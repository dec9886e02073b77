// SPDX-License-Identifier: Apache-2.0
#include "framework/parallel/tensor/shared_gradients.h"

#include "framework/ops/copy.h"
#include "framework/ops/memory.h"

namespace tessera {
namespace {

// The place of a box in a message that holds the whole logical tensor, rows first.
Tensor place_of(const Box& box, const Tensor& whole) {
  const Tensor rows = whole.narrow(box.offset[0], box.extent[0]);
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

SharedGradients::SharedGradients(ParameterStore& store, Communicator& tensor_group, Backend& backend)
    : group_(tensor_group), backend_(backend) {
  for (const Parameter& parameter : store.parameters()) {
    if (!parameter.gradient.defined() || !has_terms_along(parameter.spec, Axis::Tensor, tensor_group.size()))
      continue;
    dtype_ = parameter.gradient.dtype();
    entries_.push_back({&parameter, elements_});
    elements_ += parameter.spec.shape.elements();
  }
}

void SharedGradients::sum() {
  if (entries_.empty()) return;
  const Tensor message = zeros(backend_, dtype_, {elements_});
  const auto place = [&](const Entry& entry) {
    const Shape& shape = entry.parameter->spec.shape;
    return place_of(entry.parameter->box, message.narrow(entry.begin, shape.elements()).reshape(shape));
  };
  for (const Entry& entry : entries_) copy(backend_, entry.parameter->gradient, place(entry));
  group_.all_reduce(message, Reduce::Sum, backend_.compute_stream()).wait(backend_.compute_stream());
  for (const Entry& entry : entries_) copy(backend_, place(entry), entry.parameter->gradient);
}

}  // namespace tessera
