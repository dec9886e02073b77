// SPDX-License-Identifier: Apache-2.0
// The proofs that validate() is made of, each over its own kinds of actions, and how they refuse.
#pragma once
#include <string>
#include <vector>

#include "framework/parallel/pipeline/validate.h"

namespace tessera {

// Throws the problem of a rank with the table of actions, one row a rank: >>cell<< is the bad one, in [cell]
// others wait.
class Refusal {
 public:
  Refusal(const Schedule& schedule, const ValidationSizes& sizes, ExitCode code)
      : schedule_(schedule), sizes_(sizes), code_(code) {}

  // Of a cell, and of the cells that ranks have come to.
  [[noreturn]] void at(size_t rank, size_t cell, const std::string& problem) const;
  [[noreturn]] void at(size_t rank, const std::vector<size_t>& reached, const std::string& problem) const;

 private:
  [[noreturn]] void refuse(size_t rank, size_t cell, const std::string& problem,
                           const std::string& table) const;

  const Schedule& schedule_;
  const ValidationSizes& sizes_;
  ExitCode code_;
};

// Every action is of a stage of its rank, a micro-batch, a unit or a bucket that there is.
void check_names(const Schedule& schedule, const ValidationSizes& sizes, const Refusal& refusal);
// Between each two ranks, one way: the k-th send is of what the k-th receive expects.
void check_channels(const Schedule& schedule, const Refusal& refusal);
// Work and messages: each once, after what it needs, and no wait for ever.
void check_order(const Schedule& schedule, const ValidationSizes& sizes, const Refusal& refusal);
// What a rank's list alone decides: gathered parameters, reductions, live activations.
void check_resources(const Schedule& schedule, const ValidationSizes& sizes, const Refusal& refusal);

// Numbers of units and micro-batches in one array.
class UnitIndex {
 public:
  UnitIndex(const ValidationSizes& sizes, int microbatches) : width_(static_cast<size_t>(microbatches)) {
    for (const int units : sizes.units_of_stage) first_.push_back(first_.back() + static_cast<size_t>(units));
  }
  size_t units() const { return first_.back(); }
  size_t unit(int stage, int unit) const {
    return first_[static_cast<size_t>(stage)] + static_cast<size_t>(unit);
  }
  size_t cells() const { return units() * width_; }
  size_t cell(int stage, int u, int m) const { return unit(stage, u) * width_ + static_cast<size_t>(m); }

 private:
  size_t width_;
  std::vector<size_t> first_ = {0};
};

}  // namespace tessera
