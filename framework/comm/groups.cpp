// SPDX-License-Identifier: Apache-2.0
#include "framework/comm/groups.h"

#include <string>

#include "framework/base/check.h"

namespace tessera {

namespace {

constexpr Axis kDense[] = {Axis::Tensor, Axis::Sequence, Axis::Data};
constexpr Axis kExpert[] = {Axis::ExpertTensor, Axis::Expert, Axis::ExpertData};
constexpr Axis kAll[] = {Axis::Data,         Axis::Sequence, Axis::Tensor,    Axis::Pipeline,
                         Axis::ExpertTensor, Axis::Expert,   Axis::ExpertData};

// Of the axes that have more than one rank on this mesh, or of all in the set when there is no mesh.
std::string name_of(AxisSet axes, const Mesh* mesh = nullptr) {
  std::string text;
  for (const Axis axis : kAll)
    if (axes.contains(axis) && (mesh == nullptr || mesh->size(axis) > 1))
      text += fmt::format("{}{}", text.empty() ? "" : "+", name_of(axis));
  return text.empty() ? "self" : text;
}

const Mesh& view_of(AxisSet axes, const Layout& layout) {
  bool dense = false, expert = false;
  for (const Axis axis : kDense) dense = dense || axes.contains(axis);
  for (const Axis axis : kExpert) expert = expert || axes.contains(axis);
  CHECK(!(dense && expert), "a group along {} mixes the dense and the expert view of the ranks",
        name_of(axes));
  return expert ? layout.expert : layout.dense;
}

// For each rank the lowest rank of its group: equal for two sets exactly when all their groups are equal.
std::vector<int> leaders_of(AxisSet axes, const Mesh& mesh) {
  std::vector<int> leaders(static_cast<size_t>(mesh.ranks()), -1);
  for (int rank = 0; rank < mesh.ranks(); ++rank) {
    if (leaders[static_cast<size_t>(rank)] >= 0) continue;
    for (const int peer : mesh.peers(rank, axes)) leaders[static_cast<size_t>(peer)] = rank;
  }
  return leaders;
}

}  // namespace

std::vector<AxisSet> dense_axis_sets() {
  return {{Axis::Data},
          {Axis::Sequence},
          {Axis::Tensor},
          {Axis::Pipeline},
          {Axis::Data, Axis::Sequence},
          {Axis::Data, Axis::Sequence, Axis::Tensor}};
}

Groups::Groups(Communicator& world, const Layout& layout, std::span<const AxisSet> sets) {
  CHECK_AS(ExitCode::Usage, world.size() == layout.dense.ranks(), "the mesh {} has {} ranks, {} are running",
           layout.dense.to_string(), layout.dense.ranks(), world.size());
  std::map<std::vector<int>, Communicator*> made;
  for (const AxisSet axes : sets) {
    const Mesh& mesh = view_of(axes, layout);
    Communicator*& communicator = made[leaders_of(axes, mesh)];
    if (communicator == nullptr) {
      communicators_.push_back(world.subgroup(mesh.peers(world.rank(), axes), name_of(axes, &mesh)));
      communicator = communicators_.back().get();
    }
    by_axes_[axes] = communicator;
  }
}

int64_t Groups::sent_bytes() const {
  int64_t bytes = 0;
  for (const auto& communicator : communicators_) bytes += communicator->traffic().sent();
  return bytes;
}

Communicator& Groups::along(AxisSet axes) {
  const auto found = by_axes_.find(axes);
  CHECK(found != by_axes_.end(), "no communicator along {} was made: name the set when Groups is made",
        name_of(axes));
  return *found->second;
}

}  // namespace tessera
