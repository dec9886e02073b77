// SPDX-License-Identifier: Apache-2.0
// Reads the tensors of a checkpoint back, on any mesh, by intersecting boxes. Bytes are read at the places
// that the manifest gives, never through HDF5.
#pragma once
#include <string>
#include <vector>

#include "framework/checkpoint/open.h"
#include "framework/checkpoint/tensor_map.h"
#include "framework/comm/communicator.h"
#include "framework/ops/backend.h"

namespace tessera {

// Collective. Fills the pieces of every wanted tensor. Shapes must agree. Types must too, except that
// parameters and masters follow a change of the compute type: fp32 parameters are read from the masters, a
// missing master from an fp32 parameter, and parameters of another type are rounded from the masters.
// Returns the names in the checkpoint that no rank wanted.
std::vector<std::string> load_tensors(const Checkpoint& checkpoint, const TensorMap& wanted,
                                      Communicator& world, Backend& backend);

}  // namespace tessera
