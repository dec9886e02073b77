// SPDX-License-Identifier: Apache-2.0
#include "framework/ops/activation.h"

#include "framework/ops/checks.h"
#include "framework/ops/memory.h"

namespace tessera {
namespace {
using detail::check_like;
using detail::check_matrix;

int64_t gate_width(const Tensor& gate_up) {
  check_matrix("gated_activation", "gate_up", gate_up);
  CHECK(gate_up.size(1) % 2 == 0, "gated_activation: {} has no equal halves", gate_up.describe());
  return gate_up.size(1) / 2;
}
}  // namespace

Tensor activation(Backend& backend, Activation kind, const Tensor& x) {
  check_matrix("activation", "x", x);
  Tensor y = empty(backend, x.dtype(), x.shape());
  backend.activation({.kind = kind, .x = x, .y = y});
  return y;
}

Tensor activation_backward(Backend& backend, Activation kind, const Tensor& dy, const Tensor& x) {
  Tensor dx = empty(backend, x.dtype(), x.shape());
  activation_backward_into(backend, kind, dy, x, dx);
  return dx;
}

void activation_backward_into(Backend& backend, Activation kind, const Tensor& dy, const Tensor& x,
                              const Tensor& dx) {
  check_matrix("activation_backward", "x", x);
  check_like("activation_backward", "dy", dy, x.dtype(), x.shape());
  check_like("activation_backward", "dx", dx, x.dtype(), x.shape());
  backend.activation_backward({.kind = kind, .dy = dy, .x = x, .dx = dx});
}

Tensor gated_activation(Backend& backend, Activation kind, const Tensor& gate_up) {
  const int64_t width = gate_width(gate_up);
  Tensor y = empty(backend, gate_up.dtype(), {gate_up.size(0), width});
  backend.gated_activation({.kind = kind, .gate_up = gate_up, .y = y});
  return y;
}

Tensor gated_activation_backward(Backend& backend, Activation kind, const Tensor& dy, const Tensor& gate_up) {
  Tensor dgate_up = empty(backend, gate_up.dtype(), gate_up.shape());
  gated_activation_backward_into(backend, kind, dy, gate_up, dgate_up);
  return dgate_up;
}

void gated_activation_backward_into(Backend& backend, Activation kind, const Tensor& dy,
                                    const Tensor& gate_up, const Tensor& dgate_up) {
  const int64_t width = gate_width(gate_up);
  check_like("gated_activation_backward", "dy", dy, gate_up.dtype(), Shape{gate_up.size(0), width});
  check_like("gated_activation_backward", "dgate_up", dgate_up, gate_up.dtype(), gate_up.shape());
  backend.gated_activation_backward({.kind = kind, .dy = dy, .gate_up = gate_up, .dgate_up = dgate_up});
}

}  // namespace tessera
