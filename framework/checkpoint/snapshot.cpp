// SPDX-License-Identifier: Apache-2.0
#include "framework/checkpoint/snapshot.h"

namespace tessera {

std::vector<Tensor> written_pieces(const TensorMap& tensors) {
  std::vector<Tensor> pieces;
  for (const auto& [name, tensor] : tensors)
    for (const Piece& piece : tensor.pieces)
      if (piece.writes && piece.box.elements() > 0) pieces.push_back(piece.data.flat());
  return pieces;
}

PieceBytes copied_pieces(Backend& backend, const std::vector<Tensor>& pieces, std::byte* memory) {
  std::vector<std::span<const std::byte>> copies;
  for (const Tensor& piece : pieces) {
    const std::span<std::byte> copy(memory, static_cast<size_t>(piece.bytes()));
    backend.download(piece, copy);
    copies.push_back(copy);
    memory += copy.size();
  }
  return [copies = std::move(copies)](size_t index, int64_t begin, int64_t end) {
    return copies[index].subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
  };
}

PieceBytes staged_pieces(Backend& backend, std::vector<Tensor> pieces) {
  auto block = std::make_shared<std::vector<std::byte>>(static_cast<size_t>(PartWriter::kBlock));
  return [&backend, pieces = std::move(pieces), block](size_t index, int64_t begin, int64_t end) {
    const int64_t element = size_of(pieces[index].dtype());
    const std::span<std::byte> part = std::span(*block).first(static_cast<size_t>(end - begin));
    backend.download(pieces[index].narrow(begin / element, (end - begin) / element), part);
    return std::span<const std::byte>(part);
  };
}

}  // namespace tessera
