// SPDX-License-Identifier: Apache-2.0
// Between the order in which ranks hold tokens (mesh/sequence_cut.h) and whole rows in the order of their
// positions, padding included: [rows * cut.padded_length(), columns].
#pragma once
#include "framework/nn/context.h"

namespace tessera {

// Puts the tokens of one rank in their places among whole rows, or takes them out. Both tensors are packed;
// their types may differ.
void put_in_rows(Backend& backend, const Batch& batch, int rank, const Tensor& tokens, const Tensor& rows);
void take_from_rows(Backend& backend, const Batch& batch, int rank, const Tensor& rows, const Tensor& tokens);

Tensor empty_rows(Backend& backend, const Batch& batch, DType dtype, int64_t columns);

}  // namespace tessera
