// SPDX-License-Identifier: Apache-2.0
#include "framework/ops/norm.h"

#include "framework/ops/checks.h"
#include "framework/ops/memory.h"

namespace tessera {
namespace {
using detail::check_accumulator;
using detail::check_like;
using detail::check_matrix;
using detail::check_vector;

int64_t check_rms_norm(const Tensor& x, const Tensor& gain) {
  check_matrix("rms_norm", "x", x);
  CHECK(gain.defined() && gain.dtype() == x.dtype() && gain.packed() && gain.elements() > 0 &&
            x.size(1) % gain.elements() == 0,
        "rms_norm: rows of {} cannot be cut into groups of the gain {}", x.describe(),
        gain.defined() ? gain.describe() : "no tensor");
  return x.size(1) / gain.elements();
}
}  // namespace

LayerNormResult layer_norm(Backend& backend, const Tensor& x, const Tensor& gain, const Tensor& bias,
                           double epsilon) {
  check_matrix("layer_norm", "x", x);
  check_vector("layer_norm", "gain", gain, x.dtype(), x.size(1));
  if (bias.defined()) check_vector("layer_norm", "bias", bias, x.dtype(), x.size(1));
  const DType wide = statistics_type(x.dtype());
  LayerNormResult result{empty(backend, x.dtype(), x.shape()), empty(backend, wide, {x.size(0)}),
                         empty(backend, wide, {x.size(0)})};
  backend.layer_norm({.x = x,
                      .gain = gain,
                      .bias = bias,
                      .y = result.y,
                      .mean = result.mean,
                      .inv_std = result.inv_std,
                      .epsilon = epsilon});
  return result;
}

Tensor layer_norm_backward(Backend& backend, const Tensor& dy, const Tensor& x, const Tensor& gain,
                           const Tensor& mean, const Tensor& inv_std, const Tensor& dgain,
                           const Tensor& dbias) {
  check_matrix("layer_norm_backward", "x", x);
  check_like("layer_norm_backward", "dy", dy, x.dtype(), x.shape());
  check_vector("layer_norm_backward", "gain", gain, x.dtype(), x.size(1));
  check_vector("layer_norm_backward", "mean", mean, statistics_type(x.dtype()), x.size(0));
  check_vector("layer_norm_backward", "inv_std", inv_std, statistics_type(x.dtype()), x.size(0));
  check_accumulator("layer_norm_backward", "dgain", dgain, x.dtype(), x.size(1));
  check_accumulator("layer_norm_backward", "dbias", dbias, x.dtype(), x.size(1));
  Tensor dx = empty(backend, x.dtype(), x.shape());
  backend.layer_norm_backward({.dy = dy,
                               .x = x,
                               .gain = gain,
                               .mean = mean,
                               .inv_std = inv_std,
                               .dx = dx,
                               .dgain = dgain,
                               .dbias = dbias});
  return dx;
}

Tensor rms_norm_into(Backend& backend, const Tensor& x, const Tensor& gain, double epsilon, const Tensor& y) {
  const int64_t groups = check_rms_norm(x, gain);
  check_like("rms_norm", "y", y, x.dtype(), x.shape());
  Tensor inv_rms = empty(backend, statistics_type(x.dtype()), {x.size(0), groups});
  backend.rms_norm({.x = x, .gain = gain, .y = y, .inv_rms = inv_rms, .epsilon = epsilon});
  return inv_rms;
}

RmsNormResult rms_norm(Backend& backend, const Tensor& x, const Tensor& gain, double epsilon) {
  check_rms_norm(x, gain);
  Tensor y = empty(backend, x.dtype(), x.shape());
  return {y, rms_norm_into(backend, x, gain, epsilon, y)};
}

void rms_norm_backward_into(Backend& backend, const Tensor& dy, const Tensor& x, const Tensor& gain,
                            const Tensor& inv_rms, const Tensor& dgain, const Tensor& dx) {
  const int64_t groups = check_rms_norm(x, gain);
  check_like("rms_norm_backward", "dy", dy, x.dtype(), x.shape());
  check_like("rms_norm_backward", "dx", dx, x.dtype(), x.shape());
  check_vector("rms_norm_backward", "inv_rms", inv_rms, statistics_type(x.dtype()), x.size(0) * groups);
  check_accumulator("rms_norm_backward", "dgain", dgain, x.dtype(), gain.elements());
  backend.rms_norm_backward({.dy = dy, .x = x, .gain = gain, .inv_rms = inv_rms, .dx = dx, .dgain = dgain});
}

Tensor rms_norm_backward(Backend& backend, const Tensor& dy, const Tensor& x, const Tensor& gain,
                         const Tensor& inv_rms, const Tensor& dgain) {
  check_matrix("rms_norm_backward", "x", x);
  Tensor dx = empty(backend, x.dtype(), x.shape());
  rms_norm_backward_into(backend, dy, x, gain, inv_rms, dgain, dx);
  return dx;
}

}  // namespace tessera
