// SPDX-License-Identifier: Apache-2.0
// A linear map as the body of a branch uses it: y = x W^T + b, perhaps with an activation in its epilogue.
// Linear is that of one rank; parallel/tensor puts the collectives of a cut one around it.
#pragma once
#include "framework/nn/module.h"

namespace tessera {

class Projection : public Module {
 public:
  struct Activated {
    Tensor y, derivative;
  };
  // y = activation(x W^T + b); derivative = activation'(x W^T + b) where it is asked for, else undefined.
  virtual Activated forward_activated(const Tensor& x, Saved& saved, Context& context, Activation activation,
                                      bool with_derivative) const = 0;
  // The backward of a product whose input came from an activation: dx * factor in one call.
  virtual Tensor backward_input_times(const Tensor& dy, const Tensor& factor, Saved& saved,
                                      Context& context) const = 0;
  virtual Tensor backward_times(const Tensor& dy, const Tensor& factor, Saved& saved,
                                Context& context) const = 0;

  // The plain calls are the rich ones without an activation.
  Tensor forward(const Tensor& x, Saved& saved, Context& context) const final {
    return forward_activated(x, saved, context, Activation::None, false).y;
  }
  Tensor backward_input(const Tensor& dy, Saved& saved, Context& context) const final {
    return backward_input_times(dy, {}, saved, context);
  }
  Tensor backward(const Tensor& dy, Saved& saved, Context& context) const final {
    return backward_times(dy, {}, saved, context);
  }

  // Takes the kept input out (an undefined x) or puts it back, bit for bit as it was.
  virtual void set_input(const Tensor& x, Saved& saved) const = 0;
};

}  // namespace tessera
