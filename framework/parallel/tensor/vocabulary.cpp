// SPDX-License-Identifier: Apache-2.0
#include "framework/parallel/tensor/vocabulary.h"

#include "framework/ops/copy.h"
#include "framework/ops/cross_entropy.h"
#include "framework/ops/memory.h"

namespace tessera {
namespace {

// Reduces some columns over the group.
Tensor reduced_columns(const Tensor& x, int64_t first, int64_t count, Reduce op, Communicator& group,
                       Context& context) {
  Backend& backend = context.backend;
  const Tensor columns = empty(backend, x.dtype(), {x.size(0), count});
  copy(backend, x.columns(first, count), columns);
  group.all_reduce(columns, op, backend.compute_stream()).wait_in_turn(backend.compute_stream());
  return columns;
}

}  // namespace

void combine_statistics(const Tensor& statistics, Communicator& group, Context& context) {
  Backend& backend = context.backend;
  const Tensor maximum = reduced_columns(statistics, 0, 1, Reduce::Max, group, context);
  cross_entropy_rescale(backend, statistics, maximum.reshape({statistics.size(0)}));
  const Tensor sums = reduced_columns(statistics, 1, 3, Reduce::Sum, group, context);
  copy(backend, sums, statistics.columns(1, 3));
}

}  // namespace tessera
