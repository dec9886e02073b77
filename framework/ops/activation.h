// SPDX-License-Identifier: Apache-2.0
// Pointwise nonlinearities, alone or as a gate. The backward reads the input of the forward.
#pragma once
#include "framework/ops/backend.h"

namespace tessera {

Tensor activation(Backend& backend, Activation kind, const Tensor& x);
Tensor activation_backward(Backend& backend, Activation kind, const Tensor& dy, const Tensor& x);
// Writes dx, which may be dy itself.
void activation_backward_into(Backend& backend, Activation kind, const Tensor& dy, const Tensor& x,
                              const Tensor& dx);

// gate_up is [n, 2 * width], the gate in the first columns. Returns activation(gate) * up, [n, width].
Tensor gated_activation(Backend& backend, Activation kind, const Tensor& gate_up);
// Returns d gate_up, [n, 2 * width].
Tensor gated_activation_backward(Backend& backend, Activation kind, const Tensor& dy, const Tensor& gate_up);
// Writes d gate_up, which may be gate_up itself.
void gated_activation_backward_into(Backend& backend, Activation kind, const Tensor& dy,
                                    const Tensor& gate_up, const Tensor& dgate_up);

}  // namespace tessera
