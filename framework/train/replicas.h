// SPDX-License-Identifier: Apache-2.0
// The proof that copies stay copies (debug.check_replicas).
#pragma once
#include "framework/base/quantity.h"
#include "framework/train/rank.h"

namespace tessera {

// Collective. Compares a checksum of every parameter, master and optimizer state between the ranks that hold
// the same box of it. Throws Error(Communication) naming the first tensor that differs, and the ranks.
void check_replicas(Rank& rank, Steps step);

}  // namespace tessera
