// SPDX-License-Identifier: Apache-2.0
#include "framework/train/logical.h"

#include <algorithm>

#include "framework/ops/copy.h"
#include "framework/ops/memory.h"

namespace tessera {
namespace {

Tensor part_of(const ParameterShard& range, TensorKind kind) {
  switch (kind) {
    case TensorKind::Value:
      return range.value;
    case TensorKind::Master:
      return range.master;
    case TensorKind::Gradient:
      break;
  }
  return range.gradient;
}

// Copies flat elements [own.begin, own.end) of the local box to their places in the whole tensor.
void place(const Parameter& parameter, Range own, const Tensor& flat, const Tensor& whole, Backend& backend) {
  const Shape local(std::span<const int64_t>(parameter.box.extent));
  int64_t done = 0;
  for (const Box& box : boxes_of_flat_range(local, own.begin, own.end)) {
    const int64_t count = box.elements();
    const Tensor rows = whole.narrow(parameter.box.offset[0] + box.offset[0], box.extent[0]);
    const bool vector = box.offset.size() < 2;
    const Tensor target =
        vector ? rows : rows.columns(parameter.box.offset[1] + box.offset[1], box.extent[1]);
    copy(backend, flat.narrow(done, count).reshape(target.shape()), target);
    done += count;
  }
}

}  // namespace

// Boxes that overlap are cut by rows, so an own box is a run of rows of the local one.
Range own_range(const Rank& rank, const ParameterShard& range) {
  const Parameter& parameter = *range.parameter;
  const Box own = own_box(parameter.spec.shape, parameter.spec.shard, rank.layout().dense, rank.number());
  const int64_t row = parameter.box.extent[0] == 0 ? 0 : parameter.box.elements() / parameter.box.extent[0];
  const int64_t begin = (own.offset[0] - parameter.box.offset[0]) * row, end = begin + own.extent[0] * row;
  const int64_t first = std::max(range.begin, begin);
  return {first, std::max(first, std::min(range.begin + range.value.elements(), end))};
}

// Each element is a sum of one value and zeros.
Tensor logical_tensor(Rank& rank, const ParameterSpec& spec, TensorKind kind) {
  Backend& backend = rank.backend();
  const DType type = kind == TensorKind::Value    ? rank.buffers().options().compute
                     : kind == TensorKind::Master ? statistics_type(rank.buffers().options().compute)
                                                  : rank.buffers().options().gradient;
  const Tensor whole = zeros(backend, type, spec.shape);
  for (const ParameterShard& range : rank.buffers().ranges()) {
    const Parameter& parameter = *range.parameter;
    if (parameter.spec.name != spec.name || rank.holders(spec).front() != rank.number()) continue;
    const Range own = own_range(rank, range);
    if (own.size() > 0)
      place(parameter, own, part_of(range, kind).narrow(own.begin - range.begin, own.size()), whole, backend);
  }
  rank.world().all_reduce(whole, Reduce::Sum, backend.compute_stream()).wait(backend.compute_stream());
  return whole;
}

}  // namespace tessera
