// SPDX-License-Identifier: Apache-2.0
// The bytes of the pieces that this rank writes: copied to host memory at once, so that training can go on,
// or fetched from the backend block by block while they are written.
#pragma once
#include <memory>
#include <vector>

#include "framework/checkpoint/part_writer.h"
#include "framework/checkpoint/tensor_map.h"
#include "framework/ops/backend.h"

namespace tessera {

// In the order of the rank's declaration; flat.
std::vector<Tensor> written_pieces(const TensorMap& tensors);

// Copies into `memory`, which holds written_bytes() and must outlive the result.
PieceBytes copied_pieces(Backend& backend, const std::vector<Tensor>& pieces, std::byte* memory);

// The backend and the tensors must stay as they are until the bytes are written.
PieceBytes staged_pieces(Backend& backend, std::vector<Tensor> pieces);

}  // namespace tessera
