// SPDX-License-Identifier: Apache-2.0
#include "framework/train/logical.h"

#include "framework/ops/copy.h"
#include "framework/ops/memory.h"

namespace tessera {

// Parts that overlap are cut by rows, so an own part is a run of rows of the box.
OwnPart own_part(const Rank& rank, const Parameter& parameter, const Tensor& data) {
  const ParameterSpec& spec = parameter.spec;
  const Box own = own_box(spec.shape, spec.shard, rank.layout().dense, rank.number());
  return {own, data.narrow(own.offset[0] - parameter.box.offset[0], own.extent[0])};
}

// Each element is a sum of one value and zeros.
Tensor logical_tensor(Rank& rank, const Parameter& parameter, const Tensor& data) {
  Backend& backend = rank.backend();
  const Tensor whole = zeros(backend, data.dtype(), parameter.spec.shape);
  const auto [box, part] = own_part(rank, parameter, data);
  if (rank.answers_for(parameter.spec) && box.elements() > 0) {
    const Tensor rows = whole.narrow(box.offset[0], box.extent[0]);
    copy(backend, part, box.offset.size() < 2 ? rows : rows.columns(box.offset[1], box.extent[1]));
  }
  rank.world().all_reduce(whole, Reduce::Sum, backend.compute_stream()).wait(backend.compute_stream());
  return whole;
}

}  // namespace tessera
