// SPDX-License-Identifier: Apache-2.0
// Every operation written from its definition, in double, without regard to speed, memory or the way a
// backend does it. Masks and random factors are definitions, too, and are written again here.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "tests/ops/case_list.h"

namespace tessera::test {

using HostTensors = std::map<std::string, std::vector<double>>;

// Computes the outputs of `op` from the inputs, all by name. Operands that the case lacks are empty.
void reference(const std::string& op, const OpCase& op_case, HostTensors& tensors);

}  // namespace tessera::test
