// SPDX-License-Identifier: Apache-2.0
// Which layers a stage holds: the one function that run, checkpoint and planner share. A model is a chain of
// units, the embedding, its blocks and the head; a stage is a piece of the chain, so every layer is in
// exactly one, in order. The embedding goes with the first stage, the head with the last.
#pragma once
#include <span>
#include <string_view>
#include <vector>

namespace tessera {

// Blocks of each stage such that the rank with most work has as little as can be; of splits with the same
// most, the one whose other ranks differ least. Costs are of a unit, in any measure: [0] the embedding, then
// the blocks, last the head. Every stage gets a block: exit code 2 when there are fewer than stages.
std::vector<int> split_by_cost(std::span<const double> unit_costs, const std::vector<int>& rank_of_stage);

// Blocks of each stage as a text says it: numbers in the order of the stages, "7*2" for seven stages of 2.
// Only the first and the last stage may have none. Exit code 2 when the text is not that, or does not give
// `stages` numbers with the sum `blocks`.
std::vector<int> split_from_text(std::string_view text, int stages, int blocks);

// Units of the chain that each stage holds.
struct UnitRange {
  int first = 0, count = 0;
  auto operator<=>(const UnitRange&) const = default;
};
std::vector<UnitRange> units_of_stages(const std::vector<int>& blocks_of_stage);

}  // namespace tessera
