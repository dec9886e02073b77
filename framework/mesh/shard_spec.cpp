// SPDX-License-Identifier: Apache-2.0
#include "framework/mesh/shard_spec.h"

#include <algorithm>

#include "framework/base/check.h"

namespace tessera {

int64_t Box::elements() const {
  int64_t product = 1;
  for (const int64_t size : extent) product *= size;
  return product;
}

Range part_of(int64_t count, int64_t parts, int64_t index, int64_t multiple) {
  CHECK(count >= 0 && parts >= 1 && index >= 0 && index < parts && multiple >= 1,
        "part {} of {} of a count of {}, cut on multiples of {}", index, parts, count, multiple);
  // Only the last unit can be short, when `multiple` does not divide the count.
  const int64_t units = count / multiple + (count % multiple != 0 ? 1 : 0);
  const int64_t each = units / parts, larger = units % parts;
  const auto boundary = [&](int64_t part) {
    const int64_t unit = part * each + std::min(part, larger);
    return unit == units ? count : unit * multiple;
  };
  return {boundary(index), boundary(index + 1)};
}

Range ShardSpec::Split::part(int64_t count, int64_t parts, int64_t index) const {
  if (users == 0) return part_of(count, parts, index, multiple);
  CHECK(count % multiple == 0 && count > 0 && users % (count / multiple) == 0,
        "a dim of {} in multiples of {} does not serve {} users in equal groups", count, multiple, users);
  const int64_t group = users / (count / multiple);
  const Range served = part_of(users, parts, index);
  if (served.size() == 0) return {served.begin / group * multiple, served.begin / group * multiple};
  return {served.begin / group * multiple, ((served.end - 1) / group + 1) * multiple};
}

Range ShardSpec::Split::own_part(int64_t count, int64_t parts, int64_t index) const {
  Range own = part(count, parts, index);
  if (index > 0) own.begin = std::min(own.end, std::max(own.begin, part(count, parts, index - 1).end));
  return own;
}

bool ShardSpec::Split::overlaps(const Shape& global, int64_t parts) const {
  for (int64_t i = 1; i < parts; ++i)
    if (own_part(global[dim], parts, i) != part(global[dim], parts, i)) return true;
  return false;
}

namespace {

Box cut_box(const Shape& global, const ShardSpec& spec, const Mesh& mesh, int rank, bool own) {
  Box box;
  box.extent.assign(global.dims().begin(), global.dims().end());
  box.offset.assign(box.extent.size(), 0);
  // Two splits of one dim nest: the second cuts the part that the first left.
  for (const ShardSpec::Split& split : spec.splits) {
    CHECK(split.dim >= 0 && split.dim < global.rank(), "a split over {} names dim {} of a tensor of {}",
          name_of(split.axis), split.dim, global.to_string());
    const auto dim = static_cast<size_t>(split.dim);
    const int64_t parts = mesh.size(split.axis), index = mesh.coordinate(rank, split.axis);
    const Range part =
        own ? split.own_part(box.extent[dim], parts, index) : split.part(box.extent[dim], parts, index);
    box.offset[dim] += part.begin;
    box.extent[dim] = part.size();
  }
  return box;
}

}  // namespace

Box local_box(const Shape& global, const ShardSpec& spec, const Mesh& mesh, int rank) {
  return cut_box(global, spec, mesh, rank, false);
}

Box own_box(const Shape& global, const ShardSpec& spec, const Mesh& mesh, int rank) {
  return cut_box(global, spec, mesh, rank, true);
}

AxisSet copy_axes(const ShardSpec& spec) {
  AxisSet axes;
  for (const Axis axis : {Axis::Tensor, Axis::Sequence, Axis::Data}) {
    const auto names = [&](const ShardSpec::Split& split) { return split.axis == axis; };
    if (std::none_of(spec.splits.begin(), spec.splits.end(), names)) axes.add(axis);
  }
  return axes;
}

namespace {

// Appends the boxes of [begin, end) inside the sub-tensor that the first `dim` offsets of `at` name.
void append_boxes(const Shape& shape, int dim, std::vector<int64_t>& at, int64_t begin, int64_t end,
                  std::vector<Box>& boxes) {
  if (begin == end) return;
  int64_t row = 1;
  for (int d = dim + 1; d < shape.rank(); ++d) row *= shape[d];

  const auto part_of_row = [&](int64_t index, int64_t from, int64_t to) {
    at[static_cast<size_t>(dim)] = index;
    append_boxes(shape, dim + 1, at, from, to, boxes);
    at[static_cast<size_t>(dim)] = 0;
  };
  if (dim < shape.rank() && begin / row == (end - 1) / row && end - begin < row) {
    part_of_row(begin / row, begin % row, begin % row + (end - begin));
    return;
  }
  if (begin % row != 0) {
    part_of_row(begin / row, begin % row, row);
    begin += row - begin % row;
  }
  if (const int64_t whole_rows = end / row - begin / row; whole_rows > 0) {
    Box box{at, std::vector<int64_t>(at.size(), 1)};
    if (dim < shape.rank()) {
      box.offset[static_cast<size_t>(dim)] = begin / row;
      box.extent[static_cast<size_t>(dim)] = whole_rows;
    }
    for (int d = dim + 1; d < shape.rank(); ++d) box.extent[static_cast<size_t>(d)] = shape[d];
    boxes.push_back(std::move(box));
  }
  if (end % row != 0) part_of_row(end / row, 0, end % row);
}

}  // namespace

std::vector<Box> boxes_of_flat_range(const Shape& shape, int64_t begin, int64_t end) {
  CHECK(begin >= 0 && begin <= end && end <= shape.elements(), "flat range [{}, {}) of a tensor of {}", begin,
        end, shape.to_string());
  std::vector<Box> boxes;
  std::vector<int64_t> at(static_cast<size_t>(shape.rank()), 0);
  append_boxes(shape, 0, at, begin, end, boxes);
  return boxes;
}

Box intersection(const Box& a, const Box& b) {
  CHECK(a.offset.size() == b.offset.size() && a.extent.size() == a.offset.size() &&
            b.extent.size() == b.offset.size(),
        "boxes of {} and {} dims have no common part", a.offset.size(), b.offset.size());
  Box common = a;
  for (size_t d = 0; d < a.offset.size(); ++d) {
    common.offset[d] = std::max(a.offset[d], b.offset[d]);
    const int64_t end = std::min(a.offset[d] + a.extent[d], b.offset[d] + b.extent[d]);
    common.extent[d] = std::max<int64_t>(0, end - common.offset[d]);
  }
  return common;
}

}  // namespace tessera
