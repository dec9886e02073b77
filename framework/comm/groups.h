// SPDX-License-Identifier: Apache-2.0
// The communicators of one rank along the axes of its layout. All are made at once when Groups is made, by
// every rank in the same order, so that none is made in the middle of a schedule. Sets of axes that give
// the same groups on this layout (dp, and dp with sp of size 1) share one communicator.
#pragma once
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "framework/comm/communicator.h"
#include "framework/mesh/mesh.h"

namespace tessera {

// What dense training needs: each axis alone, the ranks that share a parameter's gradient (dp and sp), and
// all ranks of a pipeline stage.
std::vector<AxisSet> dense_axis_sets();

class Groups {
 public:
  // Collective on the world, whose size must be the layout's. A set names axes of the dense view or of the
  // expert view (pp is in both), not of both.
  Groups(Communicator& world, const Layout& layout, std::span<const AxisSet> sets);

  // The ranks that differ from this one only along these axes, in rank order. The set must be one that was
  // named. A group's name is made of its axes of more than one rank: "dp", "dp+sp", "self" when there is
  // none.
  Communicator& along(AxisSet axes);
  int64_t sent_bytes() const;  // by this rank, in all of them

 private:
  std::vector<std::unique_ptr<Communicator>> communicators_;
  std::map<AxisSet, Communicator*> by_axes_;
};

}  // namespace tessera
