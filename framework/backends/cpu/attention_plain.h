// SPDX-License-Identifier: Apache-2.0
// Attention of F64 tensors, one query at a time: simple, in double throughout, without a matrix of scores.
#pragma once
#include "framework/ops/backend.h"

namespace tessera::cpu {

void attention_plain(int threads, const AttentionArgs& args);
void attention_backward_plain(int threads, const AttentionBackwardArgs& args);

}  // namespace tessera::cpu
