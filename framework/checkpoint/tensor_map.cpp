// SPDX-License-Identifier: Apache-2.0
#include "framework/checkpoint/tensor_map.h"

#include <algorithm>

#include "framework/checkpoint/hash.h"

namespace tessera {
namespace {

bool is_name_part(std::string_view part) {
  if (part.empty() || part == "." || part == "..") return false;
  return std::all_of(part.begin(), part.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  });
}

void check_piece(const std::string& name, const GlobalTensor& tensor, const Piece& piece) {
  const auto rank = static_cast<size_t>(tensor.shape.rank());
  CHECK(piece.box.offset.size() == rank && piece.box.extent.size() == rank,
        "a piece of {} has {} dimensions, the tensor {}", name, piece.box.offset.size(),
        tensor.shape.to_string());
  for (size_t d = 0; d < rank; ++d) {
    const int64_t whole = tensor.shape[static_cast<int>(d)];
    CHECK(piece.box.offset[d] >= 0 && piece.box.extent[d] >= 0 &&
              piece.box.offset[d] <= whole - piece.box.extent[d],
          "a piece of {} reaches from {} over {} in dimension {} of {}", name, piece.box.offset[d],
          piece.box.extent[d], d, tensor.shape.to_string());
  }
  if (piece.box.elements() == 0) return;
  CHECK(piece.data.defined() && piece.data.packed() && piece.data.dtype() == tensor.dtype &&
            piece.data.elements() == piece.box.elements(),
        "a piece of {} needs {} packed elements of {}, its data is {}", name, piece.box.elements(),
        name_of(tensor.dtype), piece.data.defined() ? piece.data.describe() : "not defined");
}

}  // namespace

bool is_tensor_name(std::string_view name) {
  for (;;) {
    const size_t slash = name.find('/');
    if (!is_name_part(name.substr(0, slash))) return false;
    if (slash == std::string_view::npos) return true;
    name.remove_prefix(slash + 1);
  }
}

void check_tensor_map(const TensorMap& tensors) {
  for (const auto& [name, tensor] : tensors) {
    CHECK(is_tensor_name(name), "'{}' cannot be the name of a tensor in a checkpoint", name);
    for (const Piece& piece : tensor.pieces) check_piece(name, tensor, piece);
  }
}

std::vector<Piece> pieces_of_flat_range(const Box& box, int64_t begin, int64_t end, const Tensor& data,
                                        bool writes) {
  const Tensor flat = data.flat();
  std::vector<Piece> pieces;
  int64_t taken = 0;
  for (Box& part : boxes_of_flat_range(Shape(box.extent), begin, end)) {
    for (size_t d = 0; d < part.offset.size(); ++d) part.offset[d] += box.offset[d];
    const int64_t count = part.elements();
    pieces.push_back({std::move(part), flat.narrow(taken, count), writes});
    taken += count;
  }
  CHECK(taken == data.elements(), "a flat range of {} elements has data of {}", taken, data.elements());
  return pieces;
}

std::vector<Piece> pieces_of_replica(std::string_view name, const Box& box, const Tensor& data, int replicas,
                                     int replica, int64_t smallest_cut_bytes) {
  return pieces_of_replica(name, box, {0, box.elements()}, data.flat(), replicas, replica,
                           smallest_cut_bytes);
}

std::vector<Piece> pieces_of_replica(std::string_view name, const Box& box, Range range, const Tensor& data,
                                     int replicas, int replica, int64_t smallest_cut_bytes) {
  CHECK(replica >= 0 && replica < replicas, "replica {} of {}", replica, replicas);
  if (range.size() == 0) return {};
  if (data.bytes() / replicas < smallest_cut_bytes) {
    const auto owner = static_cast<int>(digest_of(name).low % static_cast<uint64_t>(replicas));
    if (owner != replica) return {};
    return pieces_of_flat_range(box, range.begin, range.end, data, true);
  }
  const Range part = part_of(range.size(), replicas, replica);
  return pieces_of_flat_range(box, range.begin + part.begin, range.begin + part.end,
                              data.narrow(part.begin, part.size()), true);
}

int64_t written_bytes(const TensorMap& tensors) {
  int64_t bytes = 0;
  for (const auto& [name, tensor] : tensors)
    for (const Piece& piece : tensor.pieces)
      if (piece.writes) bytes += piece.box.elements() * size_of(tensor.dtype);
  return bytes;
}

}  // namespace tessera
