// SPDX-License-Identifier: Apache-2.0
// How one logical tensor lies on a mesh, and the boxes of it that a rank holds. local_boxes is the one
// pure function that initialisation, ZeRO, checkpoints and the planner share.
#pragma once
#include <cstdint>
#include <vector>

#include "framework/mesh/mesh.h"
#include "framework/tensor/shape.h"

namespace tessera {

// The part of [0, count) that falls to `index` of `parts`, cut on multiples of `multiple`: the first parts
// are larger by one multiple when it does not divide. Ordered, disjoint, complete.
struct Range {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
  bool operator==(const Range&) const = default;
};
Range part_of(int64_t count, int64_t parts, int64_t index, int64_t multiple = 1);

// Axes that are not named hold full copies.
struct ShardSpec {
  struct Split {
    int dim;
    Axis axis;
    int64_t multiple = 1;  // cuts fall on multiples of this (head_dim), the sizes may be uneven
    // Not 0: the multiples (key heads) serve this many users (query heads) in equal groups, the users are
    // cut, and each part holds the multiples that its users need. Parts may then overlap.
    int64_t users = 0;

    Range part(int64_t count, int64_t parts, int64_t index) const;
    // What `index` alone answers for where parts overlap: a multiple belongs to the first part that has it.
    Range own_part(int64_t count, int64_t parts, int64_t index) const;
    bool overlaps(const Shape& global, int64_t parts) const;
  };
  std::vector<Split> splits = {};
  AxisSet partial_gradient = {Axis::Data,
                              Axis::Sequence};  // along these each rank holds one term of the gradient's sum
};

// A rectangle of a logical tensor: offset and extent for each dim.
struct Box {
  std::vector<int64_t> offset, extent;
  int64_t elements() const;
  bool operator==(const Box&) const = default;
};

Box local_box(const Shape& global, const ShardSpec& spec, const Mesh& mesh, int rank);
// The part of local_box whose elements no other part of the same splits answers for: over the ranks that
// differ along the splits' axes these boxes are disjoint and complete. Equal to local_box unless parts
// overlap.
Box own_box(const Shape& global, const ShardSpec& spec, const Mesh& mesh, int rank);
// The axes of the dense view along which whole copies of a local box lie: those that no split names.
AxisSet copy_axes(const ShardSpec& spec);

// A flat range of a row-major tensor as at most 2 * rank - 1 boxes, in order.
std::vector<Box> boxes_of_flat_range(const Shape& shape, int64_t begin, int64_t end);
// The common part, with extent 0 somewhere when there is none.
Box intersection(const Box& a, const Box& b);

}  // namespace tessera
