// SPDX-License-Identifier: Apache-2.0
// From a rank's flat ranges to logical tensors: which elements the rank alone answers for, and whole tensors
// put together from all ranks, one at a time, for dumps and comparisons.
#pragma once
#include "framework/train/rank.h"

namespace tessera {

// The part of a range of a parameter's local box, flat, whose elements this rank's place on the splits
// answers for: all of it unless boxes of two ranks overlap. Ranks that hold copies (Rank::holders) answer for
// the same.
Range own_range(const Rank& rank, const ParameterShard& range);

enum class TensorKind : uint8_t { Value, Master, Gradient };

// Collective over the world: the whole tensor of a parameter of the model, on every rank. Gradients are those
// of after the reduction.
Tensor logical_tensor(Rank& rank, const ParameterSpec& spec, TensorKind kind);

}  // namespace tessera
