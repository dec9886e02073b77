// SPDX-License-Identifier: Apache-2.0
// Rows of a table by index. The table may be a slice of the logical one that begins at first_row; indices
// outside of it give zero rows and no gradient.
#pragma once
#include "framework/ops/backend.h"

namespace tessera {

Tensor embedding(Backend& backend, const Tensor& table, const Tensor& indices, int64_t first_row = 0);
// y += the rows.
void accumulate_embedding(Backend& backend, const Tensor& table, const Tensor& indices, const Tensor& y,
                          int64_t first_row = 0);
// dtable += the rows of dy, in the order of the tokens.
void embedding_backward(Backend& backend, const Tensor& dy, const Tensor& indices, const Tensor& dtable,
                        int64_t first_row = 0);

}  // namespace tessera
