// SPDX-License-Identifier: Apache-2.0
// Normalisation over rows. Statistics are kept in fp32 (F64 beside F64) for the backward. Gradients of
// gain and bias are added to; an undefined one is not computed.
#pragma once
#include "framework/ops/backend.h"

namespace tessera {

struct LayerNormResult {
  Tensor y, mean, inv_std;  // [n, width], [n], [n]
};
LayerNormResult layer_norm(Backend& backend, const Tensor& x, const Tensor& gain, const Tensor& bias,
                           double epsilon);
// Returns dx.
Tensor layer_norm_backward(Backend& backend, const Tensor& dy, const Tensor& x, const Tensor& gain,
                           const Tensor& mean, const Tensor& inv_std, const Tensor& dgain,
                           const Tensor& dbias);

// Each group of gain.elements() columns of x is normalised by itself: heads of a query, or whole rows.
struct RmsNormResult {
  Tensor y, inv_rms;  // [n, columns], [n, groups]
};
RmsNormResult rms_norm(Backend& backend, const Tensor& x, const Tensor& gain, double epsilon);
// Writes y, which may be x itself or a column slice; returns inv_rms.
Tensor rms_norm_into(Backend& backend, const Tensor& x, const Tensor& gain, double epsilon, const Tensor& y);
// Returns dx.
Tensor rms_norm_backward(Backend& backend, const Tensor& dy, const Tensor& x, const Tensor& gain,
                         const Tensor& inv_rms, const Tensor& dgain);
// Writes dx, which may be dy itself or a column slice.
void rms_norm_backward_into(Backend& backend, const Tensor& dy, const Tensor& x, const Tensor& gain,
                            const Tensor& inv_rms, const Tensor& dgain, const Tensor& dx);

}  // namespace tessera
