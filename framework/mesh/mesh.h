// SPDX-License-Identifier: Apache-2.0
// Arithmetic of a mesh: which rank stands where, and who its peers are. No processes, no communication.
#pragma once
#include <string>
#include <vector>

#include "framework/mesh/axis.h"

namespace tessera {

class Mesh {
 public:
  struct Dim {
    Axis axis;
    int size;
  };
  // The first dim varies fastest with the rank. Throws on a size below 1 or a repeated axis.
  explicit Mesh(std::vector<Dim> fastest_first);

  int ranks() const;
  int size(Axis axis) const;  // 1 for an axis that the mesh does not have
  int coordinate(int rank, Axis axis) const;
  // Ranks that differ from `rank` only along these axes, itself included, in rank order.
  std::vector<int> peers(int rank, AxisSet axes) const;
  // The index of `rank` in peers(rank, axes), without making the list.
  int place(int rank, AxisSet axes) const;
  std::string to_string() const;  // "tp=1 sp=1 dp=2 pp=1"

 private:
  std::vector<Dim> dims_;
};

// The same ranks as dense layers see them (tp, sp, dp, pp) and as experts do (etp, ep, edp, pp).
struct MeshSizes {
  int tp = 1, sp = 1, dp = 1, pp = 1, ep = 1, etp = 1;
};
struct Layout {
  Mesh dense, expert;
};
Layout make_layout(
    const MeshSizes& sizes);  // throws ExitCode::Usage when the expert cut does not come out whole

}  // namespace tessera
