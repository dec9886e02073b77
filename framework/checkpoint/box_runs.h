// SPDX-License-Identifier: Apache-2.0
// Where the common part of two boxes lies in each of them, as runs of contiguous elements.
#pragma once
#include <cstdint>
#include <vector>

#include "framework/mesh/shard_spec.h"

namespace tessera {

// The offset of the element at global index `at` among the packed elements of `box`.
inline int64_t offset_in(const Box& box, const std::vector<int64_t>& at) {
  int64_t offset = 0;
  for (size_t d = 0; d < at.size(); ++d) offset = offset * box.extent[d] + (at[d] - box.offset[d]);
  return offset;
}

// Calls visit(offset in a, offset in b, elements) for every run that is contiguous in both.
template <class Visit>
void for_each_common_run(const Box& a, const Box& b, Visit&& visit) {
  const Box common = intersection(a, b);
  if (common.elements() == 0) return;
  // Dims from `inner` on make one run: below the first of them, both boxes must be as wide as the common
  // part.
  size_t inner = common.offset.size();
  int64_t run = 1;
  while (inner > 0) {
    --inner;
    run *= common.extent[inner];
    if (a.extent[inner] != common.extent[inner] || b.extent[inner] != common.extent[inner]) break;
  }
  std::vector<int64_t> at = common.offset;
  for (;;) {
    visit(offset_in(a, at), offset_in(b, at), run);
    size_t d = inner;
    while (d > 0 && ++at[d - 1] == common.offset[d - 1] + common.extent[d - 1]) {
      at[d - 1] = common.offset[d - 1];
      --d;
    }
    if (d == 0) return;
  }
}

// The boxes of elements [begin, end) of `box`, each contiguous, in order.
std::vector<Box> boxes_within(const Box& box, int64_t begin, int64_t end);

}  // namespace tessera
