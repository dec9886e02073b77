// SPDX-License-Identifier: Apache-2.0
// The algorithms of a reduction as data. The elements are cut into chunks; for each chunk the ranks of the
// group form a tree. Partial sums go up the tree, each rank adds those of its children and its own term in a
// fixed order, and the sum goes down the same tree. So the shape of the trees is the algorithm, and every
// transport carries out the same data: all ranks get the same bits, the same in every run and on every
// transport.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "framework/mesh/shard_spec.h"
#include "framework/tensor/dtype.h"

namespace tessera {

// With n ranks:
enum class AllReduceAlgorithm : uint8_t {
  Auto,             // Direct or Hierarchical, by chosen_algorithm
  Direct,           // n chunks; the owner of a chunk adds all terms, in rank order
  Ring,             // n chunks; each goes once around the ranks and is added on the way
  Tree,             // 2 chunks, each with its binary tree; no rank adds in both (Sanders, Speck, Traeff 2009)
  Hierarchical,     // first the ranks of a node among each other, then one rank of each node
  ParameterServer,  // one chunk: rank 0 adds all terms, in rank order
};
std::string_view name_of(AllReduceAlgorithm algorithm);  // "parameter_server"

// What Auto stands for; any other algorithm stands for itself. `nodes` as in plan_of.
AllReduceAlgorithm chosen_algorithm(AllReduceAlgorithm asked, int64_t bytes, std::span<const int> nodes);

// One rank's place in the tree of one chunk.
struct ChunkPlace {
  int parent = -1;  // -1: the root
  // The additions that this rank makes, one after another, each rounded once. The terms in their order: this
  // rank (its own term, or what it has added before) among its children. Empty at a leaf.
  std::vector<std::vector<int>> additions = {};
  int depth = 0;  // hops to the root
  // Larger than that of any child. Ranks work on their chunks in the order of (height, chunk) on the way up
  // and (depth, chunk) on the way down, which cannot deadlock: everything waits only for smaller places.
  int height = 0, parent_height = 0;

  std::vector<int> children(int rank) const;
};

// One rank's places in all chunks.
struct ReductionPlan {
  int rank = 0;
  std::vector<ChunkPlace> chunks;
  int most_children = 1;  // of any rank of the group in one chunk

  Range range(int64_t elements, int chunk) const {
    return part_of(elements, static_cast<int64_t>(chunks.size()), chunk);
  }
  // What this rank sends in an all-reduce.
  int64_t sent_bytes(int64_t elements, DType dtype) const;
};

// `nodes`: by rank of the group, the node that it runs on (any numbers). `algorithm` is not Auto.
ReductionPlan plan_of(AllReduceAlgorithm algorithm, int rank, std::span<const int> nodes);

}  // namespace tessera
