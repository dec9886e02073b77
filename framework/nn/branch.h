// SPDX-License-Identifier: Apache-2.0
// The inner part of a residual branch: attention, an mlp. Its input is the output of a norm, which can be
// made again, so the branch takes it out of `saved` after forward and puts it back before the gradient that
// needs it.
#pragma once
#include "framework/nn/module.h"

namespace tessera {

class BranchBody : public Module {
 public:
  // An undefined x takes the input out; otherwise puts it back, bit for bit as it was.
  virtual void set_input(const Tensor& x, Saved& saved) const = 0;
};

}  // namespace tessera
