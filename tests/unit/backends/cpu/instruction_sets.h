// SPDX-License-Identifier: Apache-2.0
// Runs a piece of a test once on each instruction set that the binary carries and this machine has.
#pragma once
#include "framework/backends/cpu/simd_targets.h"
// After simd_targets.h.
#include <hwy/highway.h>
#include <hwy/targets.h>

#include <vector>

namespace tessera::cpu {

// Chooses one instruction set while alive.
class InstructionSet {
 public:
  explicit InstructionSet(int64_t target) { hwy::GetChosenTarget().Update(target); }
  ~InstructionSet() { hwy::GetChosenTarget().Update(hwy::SupportedTargets()); }
  InstructionSet(const InstructionSet&) = delete;
  InstructionSet& operator=(const InstructionSet&) = delete;
};

// The best first, the baseline last.
inline std::vector<int64_t> instruction_sets() {
  std::vector<int64_t> sets = hwy::SupportedAndGeneratedTargets();
  if (sets.empty() || sets.back() != HWY_STATIC_TARGET) sets.push_back(HWY_STATIC_TARGET);
  return sets;
}

}  // namespace tessera::cpu
