// SPDX-License-Identifier: Apache-2.0
#include "framework/nn/norm.h"

#include "framework/ops/norm.h"

namespace tessera {

Tensor LayerNorm::forward(const Tensor& x, Saved& saved, Context& context) const {
  const LayerNormResult result = layer_norm(context.backend, x, gain_.value, bias_.value, epsilon_);
  if (context.training()) saved.keep(x, result.mean, result.inv_std);
  return result.y;
}

Tensor LayerNorm::backward_input(const Tensor& dy, Saved& saved, Context& context) const {
  const auto [x, mean, inv_std] = saved.tensors<3>();
  return layer_norm_backward(context.backend, dy, x, gain_.value, mean, inv_std, gain_.gradient,
                             bias_.gradient);
}

Tensor LayerNorm::output_again(const Saved& saved, Context& context) const {
  return layer_norm(context.backend, saved.tensors<3>()[0], gain_.value, bias_.value, epsilon_).y;
}

Tensor RmsNorm::forward(const Tensor& x, Saved& saved, Context& context) const {
  const RmsNormResult result = rms_norm(context.backend, x, gain_.value, epsilon_);
  if (context.training()) saved.keep(x, result.inv_rms);
  return result.y;
}

Tensor RmsNorm::backward_input(const Tensor& dy, Saved& saved, Context& context) const {
  const auto [x, inv_rms] = saved.tensors<2>();
  return rms_norm_backward(context.backend, dy, x, gain_.value, inv_rms, gain_.gradient);
}

Tensor RmsNorm::output_again(const Saved& saved, Context& context) const {
  return rms_norm(context.backend, saved.tensors<2>()[0], gain_.value, epsilon_).y;
}

}  // namespace tessera
