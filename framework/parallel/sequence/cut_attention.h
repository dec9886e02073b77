// SPDX-License-Identifier: Apache-2.0
// What the three forms of attention over a cut sequence have in common: the ranks and the heads.
#pragma once
#include "framework/comm/communicator.h"
#include "framework/nn/attention_core.h"

namespace tessera {

class CutAttention : public AttentionCore {
 public:
  // The group is that of the sequence axis and outlives the core.
  CutAttention(Communicator& group, const AttentionSettings& settings) : group_(group), settings_(settings) {}

 protected:
  Communicator& group_;
  AttentionSettings settings_;
};

}  // namespace tessera
