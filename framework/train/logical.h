// SPDX-License-Identifier: Apache-2.0
// Logical tensors put together from the boxes of all ranks, one at a time: for dumps and comparisons.
#pragma once
#include "framework/train/rank.h"

namespace tessera {

// The part of a rank's tensor, shaped as the parameter's box, that this rank alone answers for. No elements
// when other ranks answer for all of it.
struct OwnPart {
  Box box;
  Tensor data;  // packed rows of the rank's tensor
};
OwnPart own_part(const Rank& rank, const Parameter& parameter, const Tensor& data);

// Collective over the world, on every rank: the whole tensor, of which `data` is this rank's box.
Tensor logical_tensor(Rank& rank, const Parameter& parameter, const Tensor& data);

}  // namespace tessera
