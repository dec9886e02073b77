// SPDX-License-Identifier: Apache-2.0
// The pieces of a reduction that travel between two ranks over messages, in the order in which they travel.
// Both ends compute the same.
#pragma once
#include <map>
#include <vector>

#include "framework/comm/pieces.h"
#include "framework/comm/reduction_plan.h"

namespace tessera {

struct LanePiece {
  int chunk;
  int64_t piece;  // of the chunk
};
using Lane = std::vector<LanePiece>;
using Lanes = std::map<int, Lane>;  // by peer

// Of one rank, which holds `elements` of the type.
struct ReductionLanes {
  ReductionLanes(const ReductionPlan& plan, int64_t elements, DType dtype, const PieceSizes& sizes);

  std::vector<Pieces> pieces;       // by chunk
  Lanes from_children, to_parents;  // partial sums
  Lanes from_parents, to_children;  // sums
  // Elements that the rank holds of the partial sums of a child, in pieces of at most `longest_piece`.
  int64_t held_of(int child) const;
  int64_t longest_piece = 0;
  PieceSizes sizes;
};

}  // namespace tessera
