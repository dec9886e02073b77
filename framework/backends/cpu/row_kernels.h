// SPDX-License-Identifier: Apache-2.0
// The arithmetic of the row-wise operations on one row, in fp32 and in double. Outputs may be the inputs
// where an element of the output needs only its own element of the input. "+=" accumulates, the rest
// overwrites. Sums have an order of their own that depends on the length only.
#pragma once
#include <cstdint>

#include "framework/ops/backend.h"

namespace tessera::cpu {

// Per-call constants of AdamW; see AdamwArgs.
template <class R>
struct AdamwFactors {
  R gradient_factor;
  R beta1, one_minus_beta1, beta2, one_minus_beta2;
  R step_size;              // learning rate / (1 - beta1^t)
  R inv_sqrt_correction2;   // 1 / sqrt(1 - beta2^t)
  R epsilon, decay_factor;  // 1 - learning rate * weight decay
};

// The same for SGD; see SgdArgs.
template <class R>
struct SgdFactors {
  R gradient_factor, momentum, rate, decay_factor;
};

#define TESSERA_CPU_ROW_KERNELS(R)                                                                           \
  /* bias may be null */                                                                                     \
  void layer_norm_row(const R* x, const R* gain, const R* bias, R* y, int64_t n, double epsilon, R& mean,    \
                      R& inv_std);                                                                           \
  /* dgain += and dbias +=, either may be null; dx may be dy */                                              \
  void layer_norm_backward_row(const R* dy, const R* x, const R* gain, R mean, R inv_std, R* dx, R* dgain,   \
                               R* dbias, int64_t n);                                                         \
  void rms_norm_row(const R* x, const R* gain, R* y, int64_t n, double epsilon, R& inv_rms);                 \
  void rms_norm_backward_row(const R* dy, const R* x, const R* gain, R inv_rms, R* dx, R* dgain, int64_t n); \
  void activation_row(Activation kind, const R* x, R* y, int64_t n);                                         \
  void activation_backward_row(Activation kind, const R* dy, const R* x, R* dx, int64_t n);                  \
  void gated_row(Activation kind, const R* gate, const R* up, R* y, int64_t n);                              \
  void gated_backward_row(Activation kind, const R* dy, const R* gate, const R* up, R* dgate, R* dup,        \
                          int64_t n);                                                                        \
  void softmax_stats_row(const R* x, int64_t n, R& maximum, R& sum_exp, R& sum);                             \
  /* dx = exp(x - maximum) * factor - shift */                                                               \
  void softmax_gradient_row(const R* x, R* dx, int64_t n, R maximum, R factor, R shift);                     \
  /* columns c and c + half of a head turn by the angle whose cosine and sine are given */                   \
  void rotate_row(R* head, const R* cosines, const R* sines, R sign, int64_t half);                          \
  void adamw_row(R* master, R* m, R* v, const R* gradient, int64_t n, const AdamwFactors<R>& factors);       \
  /* velocity may be null */                                                                                 \
  void sgd_row(R* master, R* velocity, const R* gradient, int64_t n, const SgdFactors<R>& factors);          \
  void add_row(const R* a, const R* b, R* y, int64_t n);                                                     \
  void scale_row(const R* x, R factor, R* y, int64_t n);                                                     \
  double sum_squares_row(const R* x, int64_t n);

TESSERA_CPU_ROW_KERNELS(float)
TESSERA_CPU_ROW_KERNELS(double)
#undef TESSERA_CPU_ROW_KERNELS

}  // namespace tessera::cpu
