// SPDX-License-Identifier: Apache-2.0
// Models with a fault put in on purpose, for tests of what finds it.
#pragma once
#include <functional>
#include <vector>

#include "framework/comm/communicator.h"
#include "framework/nn/model.h"

namespace tessera::test {

// What a fault sees of the unit that it is in.
struct FaultyUnit {
  const ParameterStore& store;
  Communicator* tensor_group;
  Backend& backend;
};
struct UnitFault {
  int unit = 0;
  std::function<void(const FaultyUnit&)> after_backward = {};  // of each micro-batch
  // The sums over the tensor group that backward starts are left out.
  bool drops_sums_in_backward = false;
};
ModelDefinition with_fault(ModelDefinition model, const UnitFault& fault);

// Changes an fp32 tensor in place.
void edit(Backend& backend, const Tensor& x, const std::function<void(std::vector<float>&)>& change);

}  // namespace tessera::test
