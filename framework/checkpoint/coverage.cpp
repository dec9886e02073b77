// SPDX-License-Identifier: Apache-2.0
#include "framework/checkpoint/coverage.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <vector>

namespace tessera {
namespace {

// The count "how many boxes hold element x" is fixed by its differences along all dims, and a box has such
// differences only at its corners, with alternating signs. So the boxes cover the tensor exactly once when
// their signed corners, summed, are those of the one box that is the whole tensor.
struct Corner {
  std::array<int64_t, Shape::kMaxRank> at{};
  int64_t sign = 1;
};

void add_corners(const Box& box, int64_t sign, std::vector<Corner>& corners) {
  const size_t rank = box.offset.size();
  for (unsigned mask = 0; mask < (1u << rank); ++mask) {
    Corner corner;
    corner.sign = sign;
    for (size_t d = 0; d < rank; ++d) {
      const bool end = (mask >> d & 1u) != 0;
      corner.at[d] = box.offset[d] + (end ? box.extent[d] : 0);
      if (end) corner.sign = -corner.sign;
    }
    corners.push_back(corner);
  }
}

bool all_cancel(std::vector<Corner>& corners) {
  std::sort(corners.begin(), corners.end(), [](const Corner& a, const Corner& b) { return a.at < b.at; });
  for (size_t i = 0; i < corners.size();) {
    int64_t sum = 0;
    const size_t first = i;
    for (; i < corners.size() && corners[i].at == corners[first].at; ++i) sum += corners[i].sign;
    if (sum != 0) return false;
  }
  return true;
}

std::string text_of(const Box& box) {
  std::string text = "[";
  for (size_t d = 0; d < box.offset.size(); ++d)
    text += fmt::format("{}{}+{}", d == 0 ? "" : ", ", box.offset[d], box.extent[d]);
  return text + "]";
}

}  // namespace

std::optional<std::string> coverage_fault(const Shape& shape, std::span<const Box> boxes) {
  std::vector<Corner> corners;
  corners.reserve((boxes.size() + 1) << static_cast<unsigned>(shape.rank()));
  int64_t covered = 0;
  for (const Box& box : boxes) {
    if (box.offset.size() != static_cast<size_t>(shape.rank()) || box.extent.size() != box.offset.size())
      return fmt::format("a piece has {} dimensions, the tensor {}", box.offset.size(), shape.rank());
    for (size_t d = 0; d < box.offset.size(); ++d) {
      const int64_t whole = shape[static_cast<int>(d)];
      if (box.offset[d] < 0 || box.extent[d] < 1 || box.extent[d] > whole ||
          box.offset[d] > whole - box.extent[d])
        return fmt::format("the piece {} does not lie inside {}", text_of(box), shape.to_string());
    }
    covered += box.elements();
    if (covered > shape.elements()) return fmt::format("pieces overlap, seen at {}", text_of(box));
    add_corners(box, 1, corners);
  }
  if (covered < shape.elements())
    return fmt::format("pieces cover {} of {} elements", covered, shape.elements());
  Box whole{std::vector<int64_t>(static_cast<size_t>(shape.rank()), 0),
            std::vector<int64_t>(shape.dims().begin(), shape.dims().end())};
  add_corners(whole, -1, corners);
  if (!all_cancel(corners)) return "some elements are covered twice and others not at all";
  return std::nullopt;
}

}  // namespace tessera
