// SPDX-License-Identifier: Apache-2.0
// A piece of the network with an explicit backward in two halves, so that schedules can name them.
// Parameter gradients are added (+=); activation gradients are returned. forward, backward_input and
// backward_weight run once each per micro-batch, tied by one Saved; outside Mode::Train forward keeps
// nothing. A module never writes to the x or dy it is given; what it returns is fresh, so that the caller
// may write to it.
#pragma once
#include "framework/nn/context.h"
#include "framework/nn/parameter.h"
#include "framework/nn/saved.h"

namespace tessera {

class Module {
 public:
  virtual ~Module() = default;

  virtual Tensor forward(const Tensor& x, Saved& saved, Context& context) const = 0;
  // dL/dx from dL/dy. Leaves in `saved` what the weight gradient still needs.
  virtual Tensor backward_input(const Tensor& dy, Saved& saved, Context& context) const = 0;
  // Adds the missing parameter gradients and empties `saved`.
  virtual void backward_weight(Saved& saved, Context& context) const = 0;
  // Both; override to overlap or fuse.
  virtual Tensor backward(const Tensor& dy, Saved& saved, Context& context) const {
    Tensor dx = backward_input(dy, saved, context);
    backward_weight(saved, context);
    return dx;
  }
  // forward once more for what it leaves in `saved`, when nobody needs the output. Override to leave out the
  // work that only the output needs.
  virtual void forward_again(const Tensor& x, Saved& saved, Context& context) const {
    forward(x, saved, context);
  }
};

}  // namespace tessera
