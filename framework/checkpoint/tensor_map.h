// SPDX-License-Identifier: Apache-2.0
// What a checkpoint holds, in the words of the logical model: named tensors of a global shape, and the boxes
// of them that this rank has. No layout, padding or fusion reaches a file. Names are API:
// "parameters/blocks.3.mlp.up.weight", "masters/...", "adamw/m/...", "adamw/v/...".
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "framework/mesh/shard_spec.h"
#include "framework/tensor/tensor.h"

namespace tessera {

struct Piece {
  Box box;              // in the logical tensor
  Tensor data;          // packed, shaped as the box (or flat, of as many elements)
  bool writes = false;  // exactly one rank writes each element; others hold copies. Loading ignores it.
};

struct GlobalTensor {
  DType dtype = DType::F32;
  Shape shape;  // logical
  std::vector<Piece> pieces;
};

using TensorMap = std::map<std::string, GlobalTensor>;

// Throws unless every name can be a path in a file (letters, digits, "._-", parts joined by '/') and every
// piece is packed, of its tensor's type, and inside its shape.
void check_tensor_map(const TensorMap& tensors);
bool is_tensor_name(std::string_view name);

// How `replicas` ranks that hold the same flat range of a box, or all of it, share the work of writing it:
// the pieces of rank `replica`. `data` holds just that range. A large range is cut into equal ones, a small
// one falls to one rank that its name picks.
std::vector<Piece> pieces_of_replica(std::string_view name, const Box& box, Range range, const Tensor& data,
                                     int replicas, int replica,
                                     int64_t smallest_cut_bytes = int64_t{1} << 20);
std::vector<Piece> pieces_of_replica(std::string_view name, const Box& box, const Tensor& data, int replicas,
                                     int replica, int64_t smallest_cut_bytes = int64_t{1} << 20);
// A flat range of a box, as pieces. `data` holds just that range.
std::vector<Piece> pieces_of_flat_range(const Box& box, int64_t begin, int64_t end, const Tensor& data,
                                        bool writes);

// Bytes that this rank writes: the host memory that an asynchronous save takes for its snapshot.
int64_t written_bytes(const TensorMap& tensors);

}  // namespace tessera
