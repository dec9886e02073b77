// SPDX-License-Identifier: Apache-2.0
// Proof that boxes cover a tensor: every element exactly once. Computed before a checkpoint is written and
// again whenever one is read.
#pragma once
#include <optional>
#include <span>
#include <string>

#include "framework/mesh/shard_spec.h"

namespace tessera {

// Nothing when the boxes cover each element of the shape exactly once; otherwise what is wrong. Boxes must
// have the shape's rank; extents and offsets may be anything.
std::optional<std::string> coverage_fault(const Shape& shape, std::span<const Box> boxes);

}  // namespace tessera
