// SPDX-License-Identifier: Apache-2.0
// Who writes what into which file: a pure function of what all ranks declare, so that every rank computes
// the same plan and nobody has to send it around.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "framework/checkpoint/sites.h"
#include "framework/checkpoint/tensor_map.h"

namespace tessera {

struct PlannedPiece {
  int rank = 0;      // who holds and writes the bytes
  size_t index = 0;  // in the order of that rank's declaration
  std::string tensor;
  std::string dataset;  // "/<tensor>/<k>", k counts the tensor's pieces in this part
  DType dtype = DType::F32;
  Box box;
  int64_t bytes() const { return box.elements() * size_of(dtype); }
};

struct PlannedPart {
  std::vector<int> ranks;  // in the order of their turns; the first creates the file
  std::vector<PlannedPiece> pieces;
};

struct SavePlan {
  struct Info {
    DType dtype;
    Shape shape;
  };
  std::map<std::string, Info> tensors;
  std::vector<PlannedPart> parts;
  int64_t data_bytes = 0;
  int64_t pieces = 0;

  int turns() const;                // the most ranks that share one part
  int64_t estimated_bytes() const;  // of all files
};

// What this rank writes, as text for make_save_plan on every rank. Pieces are numbered in map order.
std::string declaration_of(const TensorMap& tensors);

// Ranks fill max_files parts evenly and in order, those of one site together (at least one part a site); a
// rank without pieces has none. Throws when ranks disagree on a tensor, or when its elements are not declared
// exactly once.
SavePlan make_save_plan(const std::vector<std::string>& declarations, int max_files, const Sites& sites);

}  // namespace tessera
