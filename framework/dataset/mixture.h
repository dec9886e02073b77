// SPDX-License-Identifier: Apache-2.0
// Which source each sample comes from, so that after every sample each source has given its share: for any
// weights and at every prefix of n samples, |taken - n * weight| < 1. The rule is Tijdeman's for the
// chairman assignment problem (Discrete Mathematics 32, 1980): of the sources that are far enough behind,
// the one whose deadline comes first. Its whole state is the number taken of each source, so a saved state
// goes on in constant time at any depth. Integers only: every machine makes the same choices.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tessera {

class Mixture {
 public:
  // Weights are relative; at least one must be above 0, none below. At most 1024 sources.
  explicit Mixture(std::span<const double> weights);
  // Goes on after `taken` samples of each source. Throws (exit 3) for numbers that the rule cannot reach.
  Mixture(std::span<const double> weights, std::span<const int64_t> taken);

  int64_t position() const { return position_; }  // samples chosen so far
  const std::vector<int64_t>& taken() const { return taken_; }
  double share(size_t source) const;  // normalised weight

  // The source of the sample at position(); moves on.
  size_t next();

 private:
  int64_t position_ = 0;
  std::vector<int64_t> taken_;
  std::vector<int64_t> shares_;    // in units of 2^-62; they sum to 2^62
  std::vector<int64_t> deficits_;  // position * share - taken, in the same units; within (-1, 1)
  int64_t threshold_ = 0;          // a source this far behind may be chosen: 1 / (2k - 2)
};

}  // namespace tessera
