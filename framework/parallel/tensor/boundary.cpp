// SPDX-License-Identifier: Apache-2.0
#include "framework/parallel/tensor/boundary.h"

#include "framework/ops/copy.h"
#include "framework/ops/memory.h"

namespace tessera {
namespace {

int64_t rows_of(const Context& context) {
  return context.batch.rows * context.batch.length;
}

// x with rows of zeros after it.
Tensor padded(Backend& backend, const Tensor& x, int64_t rows) {
  if (x.size(0) == rows) return x;
  const Tensor whole = empty(backend, x.dtype(), {rows, x.size(1)});
  copy(backend, x, whole.narrow(0, x.size(0)));
  backend.fill(whole.narrow(x.size(0), rows - x.size(0)), 0);
  return whole;
}

}  // namespace

Pending Boundary::gather(const Tensor& hidden, Context& context) const {
  if (!cuts_rows()) return {hidden};
  const int64_t rows = rows_of(context);
  CHECK(hidden.size(0) == hidden_rows(rows), "hidden states of {} rows, and {} of {} belong to this rank",
        hidden.size(0), hidden_rows(rows), rows);
  const Tensor whole = empty(context.backend, hidden.dtype(), {hidden.size(0) * ranks(), hidden.size(1)});
  Work work = group_->all_gather(hidden, whole, context.backend.compute_stream());
  return {whole.narrow(0, rows), std::move(work)};
}

Pending Boundary::sum(const Tensor& partial, Context& context) const {
  if (ranks() == 1) return {partial};
  Stream& stream = context.backend.compute_stream();
  if (!cuts_rows()) {
    Work work = group_->all_reduce(partial, Reduce::Sum, stream);
    return {partial, std::move(work)};
  }
  const int64_t here = hidden_rows(partial.size(0));
  const Tensor whole = padded(context.backend, partial, here * ranks());
  const Tensor shard = empty(context.backend, partial.dtype(), {here, partial.size(1)});
  Work work = group_->reduce_scatter(whole, shard, Reduce::Sum, stream);
  return {shard, std::move(work)};
}

}  // namespace tessera
