// SPDX-License-Identifier: Apache-2.0
#include "framework/ops/embedding.h"

#include "framework/ops/checks.h"
#include "framework/ops/memory.h"

namespace tessera {
namespace {
void check_lookup(const Tensor& table, const Tensor& indices, const Tensor& y) {
  detail::check_matrix("embedding", "table", table);
  detail::check_vector("embedding", "indices", indices, DType::I32, indices.elements());
  detail::check_like("embedding", "y", y, table.dtype(), Shape{indices.elements(), table.size(1)});
}
}  // namespace

Tensor embedding(Backend& backend, const Tensor& table, const Tensor& indices, int64_t first_row) {
  detail::check_matrix("embedding", "table", table);
  Tensor y = empty(backend, table.dtype(), {indices.elements(), table.size(1)});
  check_lookup(table, indices, y);
  backend.embedding({.table = table, .indices = indices, .y = y, .first_row = first_row});
  return y;
}

void accumulate_embedding(Backend& backend, const Tensor& table, const Tensor& indices, const Tensor& y,
                          int64_t first_row) {
  check_lookup(table, indices, y);
  backend.embedding({.table = table, .indices = indices, .y = y, .first_row = first_row, .accumulate = true});
}

void embedding_backward(Backend& backend, const Tensor& dy, const Tensor& indices, const Tensor& dtable,
                        int64_t first_row) {
  detail::check_matrix("embedding_backward", "dy", dy);
  detail::check_matrix("embedding_backward", "dtable", dtable);
  detail::check_vector("embedding_backward", "indices", indices, DType::I32, dy.size(0));
  CHECK(dtable.size(1) == dy.size(1), "embedding_backward: dtable {} for gradients {}", dtable.describe(),
        dy.describe());
  detail::check_accumulator("embedding_backward", "dtable", dtable, dy.dtype(), dtable.elements());
  backend.embedding_backward({.dy = dy, .indices = indices, .dtable = dtable, .first_row = first_row});
}

}  // namespace tessera
