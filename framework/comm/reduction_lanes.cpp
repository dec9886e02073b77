// SPDX-License-Identifier: Apache-2.0
#include "framework/comm/reduction_lanes.h"

#include <algorithm>
#include <numeric>

namespace tessera {

ReductionLanes::ReductionLanes(const ReductionPlan& plan, int64_t elements, DType dtype,
                               const PieceSizes& piece_sizes)
    : sizes(piece_sizes) {
  const auto place = [&](int chunk) -> const ChunkPlace& { return plan.chunks[static_cast<size_t>(chunk)]; };
  std::vector<int> order(plan.chunks.size());
  std::iota(order.begin(), order.end(), 0);
  for (const int chunk : order) {
    pieces.push_back(pieces_of(plan.range(elements, chunk).size(), dtype, plan.most_children, sizes));
    if (!place(chunk).additions.empty())
      longest_piece = std::max(longest_piece, std::min(pieces.back().each, pieces.back().elements));
  }
  const auto in_order_of = [&](int ChunkPlace::*key) -> const std::vector<int>& {
    std::sort(order.begin(), order.end(),
              [&](int a, int b) { return std::pair(place(a).*key, a) < std::pair(place(b).*key, b); });
    return order;
  };
  const auto append = [&](Lane& lane, int chunk) {
    for (int64_t piece = 0; piece < pieces[static_cast<size_t>(chunk)].count(); ++piece)
      lane.push_back({chunk, piece});
  };
  for (const int chunk : in_order_of(&ChunkPlace::height))
    for (const int child : place(chunk).children(plan.rank)) append(from_children[child], chunk);
  for (const int chunk : in_order_of(&ChunkPlace::parent_height))
    if (place(chunk).parent >= 0) append(to_parents[place(chunk).parent], chunk);
  // The children of a rank are all one hop deeper, so both ends of a lane have this order.
  for (const int chunk : in_order_of(&ChunkPlace::depth)) {
    if (place(chunk).parent >= 0) append(from_parents[place(chunk).parent], chunk);
    for (const int child : place(chunk).children(plan.rank)) append(to_children[child], chunk);
  }
}

int64_t ReductionLanes::held_of(int child) const {
  const auto lane = static_cast<int64_t>(from_children.at(child).size());
  return std::min(lane, sizes.under_way) * longest_piece;
}

}  // namespace tessera
