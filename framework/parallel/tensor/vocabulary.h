// SPDX-License-Identifier: Apache-2.0
// The loss over a vocabulary cut over the tensor ranks: two small collectives, of one and of three numbers a
// token, in place of gathered logits.
#pragma once
#include "framework/parallel/tensor/boundary.h"

namespace tessera {

// Statistics [n, 4] of this rank's classes (ops/cross_entropy.h) become those of all classes, in place, with
// the same bits on every rank.
void combine_statistics(const Tensor& statistics, Communicator& group, Context& context);

}  // namespace tessera
