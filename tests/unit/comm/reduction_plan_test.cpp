// SPDX-License-Identifier: Apache-2.0
#include "framework/comm/reduction_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>

#include "framework/base/check.h"
#include "framework/comm/reduction_lanes.h"

namespace tessera::test {
namespace {

using Algorithm = AllReduceAlgorithm;
constexpr Algorithm kPlanned[] = {Algorithm::Direct, Algorithm::Ring, Algorithm::Tree,
                                  Algorithm::Hierarchical, Algorithm::ParameterServer};

std::vector<int> on_one_node(int ranks) {
  return std::vector<int>(static_cast<size_t>(ranks), 0);
}

// The plans of all ranks.
std::vector<ReductionPlan> plans_of(Algorithm algorithm, const std::vector<int>& nodes) {
  std::vector<ReductionPlan> plans;
  for (int rank = 0; rank < static_cast<int>(nodes.size()); ++rank)
    plans.push_back(plan_of(algorithm, rank, nodes));
  return plans;
}

const ChunkPlace& place_of(const std::vector<ReductionPlan>& plans, int rank, size_t chunk) {
  return plans[static_cast<size_t>(rank)].chunks[chunk];
}

// The ranks whose terms are in the partial sum of `rank`, once for each time that they were added.
std::multiset<int> terms_below(const std::vector<ReductionPlan>& plans, int rank, size_t chunk) {
  std::multiset<int> terms{rank};
  for (const int child : place_of(plans, rank, chunk).children(rank))
    terms.merge(terms_below(plans, child, chunk));
  return terms;
}

void expect_trees(const std::vector<ReductionPlan>& plans) {
  const int ranks = static_cast<int>(plans.size());
  std::multiset<int> all;
  for (int rank = 0; rank < ranks; ++rank) all.insert(rank);
  for (size_t chunk = 0; chunk < plans[0].chunks.size(); ++chunk) {
    int roots = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      const ChunkPlace& own = place_of(plans, rank, chunk);
      ASSERT_EQ(plans[static_cast<size_t>(rank)].chunks.size(), plans[0].chunks.size());
      EXPECT_EQ(plans[static_cast<size_t>(rank)].most_children, plans[0].most_children);
      EXPECT_LE(static_cast<int>(own.children(rank).size()), plans[0].most_children);
      for (const int child : own.children(rank)) {
        EXPECT_EQ(place_of(plans, child, chunk).parent, rank);
        EXPECT_EQ(place_of(plans, child, chunk).depth, own.depth + 1);
        EXPECT_LT(place_of(plans, child, chunk).height, own.height);
        EXPECT_EQ(place_of(plans, child, chunk).parent_height, own.height);
      }
      for (const std::vector<int>& terms : own.additions) {
        EXPECT_EQ(std::count(terms.begin(), terms.end(), rank), 1);
        EXPECT_GT(terms.size(), 1U);
      }
      if (own.parent >= 0) {
        const std::vector<int> siblings = place_of(plans, own.parent, chunk).children(own.parent);
        EXPECT_EQ(std::count(siblings.begin(), siblings.end(), rank), 1);
        continue;
      }
      ++roots;
      EXPECT_EQ(own.depth, 0);
      EXPECT_EQ(terms_below(plans, rank, chunk), all);
    }
    EXPECT_EQ(roots, 1);
  }
}

TEST(ReductionPlan, IsATreeThatAddsEachTermOnce) {
  for (const Algorithm algorithm : kPlanned)
    for (int ranks = 2; ranks <= 33; ++ranks) {
      SCOPED_TRACE(std::string(name_of(algorithm)) + " of " + std::to_string(ranks));
      expect_trees(plans_of(algorithm, on_one_node(ranks)));
    }
  for (const std::vector<int>& nodes : {std::vector<int>{0, 0, 1, 1},
                                        {0, 1, 0, 1, 0, 1},
                                        {7, 7, 7, 2, 2},
                                        {0, 1, 2},
                                        {0, 1, 1, 0, 2, 2, 2, 0}}) {
    SCOPED_TRACE(nodes.size());
    expect_trees(plans_of(Algorithm::Hierarchical, nodes));
  }
}

// Both ends of each lane have the same pieces in the same order.
TEST(ReductionPlan, LanesHaveTheSamePiecesAtBothEnds) {
  const std::vector<int> three_nodes{0, 1, 1, 0, 2, 2, 2, 0};
  const int64_t elements = 20 * 1024 * 1024 + 5;
  for (const Algorithm algorithm : kPlanned) {
    std::vector<ReductionLanes> lanes;
    for (const ReductionPlan& plan : plans_of(algorithm, three_nodes))
      lanes.emplace_back(plan, elements, DType::F32, kPiecesOnANode);
    const auto expect_mirrored = [&](Lanes ReductionLanes::*out, Lanes ReductionLanes::*in) {
      for (size_t from = 0; from < lanes.size(); ++from)
        for (const auto& [to, sent] : lanes[from].*out) {
          const Lane& received = (lanes[static_cast<size_t>(to)].*in).at(static_cast<int>(from));
          ASSERT_EQ(sent.size(), received.size());
          for (size_t i = 0; i < sent.size(); ++i) {
            EXPECT_EQ(sent[i].chunk, received[i].chunk);
            EXPECT_EQ(sent[i].piece, received[i].piece);
          }
        }
    };
    expect_mirrored(&ReductionLanes::to_parents, &ReductionLanes::from_children);
    expect_mirrored(&ReductionLanes::to_children, &ReductionLanes::from_parents);
  }
}

// Sanders, Speck and Traeff 2009: nobody adds in both trees, and the hops are logarithmic.
TEST(ReductionPlan, TheTwoTreesShareNoInnerRank) {
  for (int ranks = 3; ranks <= 64; ++ranks) {
    const std::vector<ReductionPlan> plans = plans_of(Algorithm::Tree, on_one_node(ranks));
    int deepest = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      EXPECT_TRUE(place_of(plans, rank, 0).additions.empty() || place_of(plans, rank, 1).additions.empty())
          << rank << " of " << ranks;
      deepest = std::max({deepest, place_of(plans, rank, 0).depth, place_of(plans, rank, 1).depth});
    }
    EXPECT_EQ(1 << deepest, static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks)))) << ranks;
  }
}

// Between nodes only 2 (N-1)/N of the data for each node, however many ranks it has.
TEST(ReductionPlan, HierarchicalSendsLittleBetweenNodes) {
  const std::vector<int> nodes{0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2};
  const int64_t elements = 1200;
  std::vector<int64_t> out_of_node(3);
  for (const ReductionPlan& plan : plans_of(Algorithm::Hierarchical, nodes))
    for (size_t c = 0; c < plan.chunks.size(); ++c) {
      std::vector<int> peers = plan.chunks[c].children(plan.rank);
      if (plan.chunks[c].parent >= 0) peers.push_back(plan.chunks[c].parent);
      for (const int peer : peers)
        if (nodes[static_cast<size_t>(peer)] != nodes[static_cast<size_t>(plan.rank)])
          out_of_node[static_cast<size_t>(nodes[static_cast<size_t>(plan.rank)])] +=
              plan.range(elements, static_cast<int>(c)).size();
    }
  EXPECT_EQ(out_of_node, std::vector<int64_t>(3, 2 * elements * 2 / 3));
}

// Bytes of the busiest rank, and of all, in units of the data.
TEST(ReductionPlan, SendsWhatTheFormulasSay) {
  constexpr int64_t kElements = 7 * 8 * 9 * 5 * 1000, kBytes = 4 * kElements;
  for (int ranks = 2; ranks <= 9; ++ranks)
    for (const Algorithm algorithm : kPlanned) {
      int64_t busiest = 0, total = 0;
      for (const ReductionPlan& plan : plans_of(algorithm, on_one_node(ranks))) {
        const int64_t sent = plan.sent_bytes(kElements, DType::F32);
        busiest = std::max(busiest, sent);
        total += sent;
      }
      EXPECT_EQ(total, 2 * (ranks - 1) * kBytes) << name_of(algorithm) << " of " << ranks;
      if (algorithm == Algorithm::ParameterServer)
        EXPECT_EQ(busiest, (ranks - 1) * kBytes) << ranks;
      else if (algorithm == Algorithm::Tree)
        EXPECT_EQ(busiest, ranks == 2 ? kBytes : ranks == 3 ? kBytes * 3 / 2 : 2 * kBytes) << ranks;
      else
        EXPECT_EQ(busiest, 2 * (ranks - 1) * kBytes / ranks) << name_of(algorithm) << " of " << ranks;
    }
}

TEST(ReductionPlan, AutoGoesByNodesAndSize) {
  const std::vector<int> one{0, 0, 0, 0}, two{0, 0, 1, 1}, alone{0, 1, 2}, uneven{0, 0, 1};
  for (const int64_t bytes : {int64_t{4}, int64_t{1} << 30}) {
    EXPECT_EQ(chosen_algorithm(Algorithm::Auto, bytes, one), Algorithm::Direct);
    EXPECT_EQ(chosen_algorithm(Algorithm::Auto, bytes, alone), Algorithm::Direct);
    EXPECT_EQ(chosen_algorithm(Algorithm::Auto, bytes, uneven), Algorithm::Direct);
    EXPECT_EQ(chosen_algorithm(Algorithm::Ring, bytes, two), Algorithm::Ring);
  }
  EXPECT_EQ(chosen_algorithm(Algorithm::Auto, 4, two), Algorithm::Direct);
  EXPECT_EQ(chosen_algorithm(Algorithm::Auto, 1 << 30, two), Algorithm::Hierarchical);
  EXPECT_THROW(plan_of(Algorithm::Auto, 0, two), Error);
}

}  // namespace
}  // namespace tessera::test
