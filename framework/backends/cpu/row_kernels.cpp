// SPDX-License-Identifier: Apache-2.0
#include "framework/backends/cpu/row_kernels.h"

#include <cmath>
#include <limits>

namespace tessera::cpu {
namespace {

template <class R>
void layer_norm_any(const R* x, const R* gain, const R* bias, R* y, int64_t n, double epsilon, R& mean,
                    R& inv_std) {
  R sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += x[i];
  mean = sum / static_cast<R>(n);
  R squares = 0;
  for (int64_t i = 0; i < n; ++i) squares += (x[i] - mean) * (x[i] - mean);
  inv_std = R(1) / std::sqrt(squares / static_cast<R>(n) + static_cast<R>(epsilon));
  for (int64_t i = 0; i < n; ++i) {
    const R value = (x[i] - mean) * inv_std * gain[i];
    y[i] = bias ? value + bias[i] : value;
  }
}

template <class R>
void layer_norm_backward_any(const R* dy, const R* x, const R* gain, R mean, R inv_std, R* dx, R* dgain,
                             R* dbias, int64_t n) {
  R sum = 0, sum_normal = 0;
  for (int64_t i = 0; i < n; ++i) {
    const R normal = (x[i] - mean) * inv_std, g = dy[i] * gain[i];
    sum += g;
    sum_normal += g * normal;
    if (dgain) dgain[i] += dy[i] * normal;
    if (dbias) dbias[i] += dy[i];
  }
  const R mean_g = sum / static_cast<R>(n), mean_normal = sum_normal / static_cast<R>(n);
  for (int64_t i = 0; i < n; ++i) {
    const R normal = (x[i] - mean) * inv_std;
    dx[i] = (dy[i] * gain[i] - mean_g - normal * mean_normal) * inv_std;
  }
}

template <class R>
void rms_norm_any(const R* x, const R* gain, R* y, int64_t n, double epsilon, R& inv_rms) {
  R squares = 0;
  for (int64_t i = 0; i < n; ++i) squares += x[i] * x[i];
  inv_rms = R(1) / std::sqrt(squares / static_cast<R>(n) + static_cast<R>(epsilon));
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] * inv_rms * gain[i];
}

template <class R>
void rms_norm_backward_any(const R* dy, const R* x, const R* gain, R inv_rms, R* dx, R* dgain, int64_t n) {
  R sum_normal = 0;
  for (int64_t i = 0; i < n; ++i) {
    const R normal = x[i] * inv_rms;
    sum_normal += dy[i] * gain[i] * normal;
    if (dgain) dgain[i] += dy[i] * normal;
  }
  const R mean_normal = sum_normal / static_cast<R>(n);
  for (int64_t i = 0; i < n; ++i) dx[i] = (dy[i] * gain[i] - x[i] * inv_rms * mean_normal) * inv_rms;
}

// Value and derivative at one point.
template <class R>
struct Curve {
  R value, slope;
};
template <class R>
Curve<R> curve(Activation kind, R x) {
  constexpr R half = R(0.5);
  switch (kind) {
    case Activation::None:
      break;
    case Activation::Relu:
      return x > 0 ? Curve<R>{x, 1} : Curve<R>{0, 0};
    case Activation::Silu: {
      const R s = R(1) / (R(1) + std::exp(-x));
      return {x * s, s * (1 + x * (1 - s))};
    }
    case Activation::Gelu: {
      const R p = half * (1 + std::erf(x * R(0.70710678118654752440)));
      return {x * p, p + x * R(0.39894228040143267794) * std::exp(-half * x * x)};
    }
    case Activation::GeluTanh: {
      constexpr R a = R(0.79788456080286535588), b = R(0.044715);
      const R z = a * (x + b * x * x * x), t = std::tanh(z), sech = 1 / std::cosh(z);
      return {half * x * (1 + t), half * (1 + t) + half * x * sech * sech * a * (1 + 3 * b * x * x)};
    }
  }
  return {x, 1};
}

template <class R>
void softmax_stats_any(const R* x, int64_t n, R& maximum, R& sum_exp, R& sum) {
  maximum = -std::numeric_limits<R>::infinity();
  for (int64_t i = 0; i < n; ++i) maximum = std::max(maximum, x[i]);
  sum_exp = sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    sum_exp += std::exp(x[i] - maximum);
    sum += x[i];
  }
}

template <class R>
void adamw_any(R* master, R* m, R* v, const R* gradient, int64_t n, const AdamwFactors<R>& f) {
  for (int64_t i = 0; i < n; ++i) {
    const R g = gradient[i] * f.gradient_factor;
    m[i] = f.beta1 * m[i] + f.one_minus_beta1 * g;
    v[i] = f.beta2 * v[i] + f.one_minus_beta2 * (g * g);
    const R denominator = std::sqrt(v[i]) * f.inv_sqrt_correction2 + f.epsilon;
    master[i] = master[i] * f.decay_factor - f.step_size * (m[i] / denominator);
  }
}

}  // namespace

#define TESSERA_CPU_ROW_KERNELS(R)                                                                         \
  void layer_norm_row(const R* x, const R* gain, const R* bias, R* y, int64_t n, double epsilon, R& mean,  \
                      R& inv_std) {                                                                        \
    layer_norm_any<R>(x, gain, bias, y, n, epsilon, mean, inv_std);                                        \
  }                                                                                                        \
  void layer_norm_backward_row(const R* dy, const R* x, const R* gain, R mean, R inv_std, R* dx, R* dgain, \
                               R* dbias, int64_t n) {                                                      \
    layer_norm_backward_any<R>(dy, x, gain, mean, inv_std, dx, dgain, dbias, n);                           \
  }                                                                                                        \
  void rms_norm_row(const R* x, const R* gain, R* y, int64_t n, double epsilon, R& inv_rms) {              \
    rms_norm_any<R>(x, gain, y, n, epsilon, inv_rms);                                                      \
  }                                                                                                        \
  void rms_norm_backward_row(const R* dy, const R* x, const R* gain, R inv_rms, R* dx, R* dgain,           \
                             int64_t n) {                                                                  \
    rms_norm_backward_any<R>(dy, x, gain, inv_rms, dx, dgain, n);                                          \
  }                                                                                                        \
  void activation_row(Activation kind, const R* x, R* y, int64_t n) {                                      \
    for (int64_t i = 0; i < n; ++i) y[i] = curve(kind, x[i]).value;                                        \
  }                                                                                                        \
  void activation_backward_row(Activation kind, const R* dy, const R* x, R* dx, int64_t n) {               \
    for (int64_t i = 0; i < n; ++i) dx[i] = dy[i] * curve(kind, x[i]).slope;                               \
  }                                                                                                        \
  void gated_row(Activation kind, const R* gate, const R* up, R* y, int64_t n) {                           \
    for (int64_t i = 0; i < n; ++i) y[i] = curve(kind, gate[i]).value * up[i];                             \
  }                                                                                                        \
  void gated_backward_row(Activation kind, const R* dy, const R* gate, const R* up, R* dgate, R* dup,      \
                          int64_t n) {                                                                     \
    for (int64_t i = 0; i < n; ++i) {                                                                      \
      const Curve<R> c = curve(kind, gate[i]);                                                             \
      const R g = dy[i] * up[i] * c.slope;                                                                 \
      dup[i] = dy[i] * c.value;                                                                            \
      dgate[i] = g;                                                                                        \
    }                                                                                                      \
  }                                                                                                        \
  void softmax_stats_row(const R* x, int64_t n, R& maximum, R& sum_exp, R& sum) {                          \
    softmax_stats_any<R>(x, n, maximum, sum_exp, sum);                                                     \
  }                                                                                                        \
  void softmax_gradient_row(const R* x, R* dx, int64_t n, R maximum, R factor, R shift) {                  \
    for (int64_t i = 0; i < n; ++i) dx[i] = std::exp(x[i] - maximum) * factor - shift;                     \
  }                                                                                                        \
  void adamw_row(R* master, R* m, R* v, const R* gradient, int64_t n, const AdamwFactors<R>& factors) {    \
    adamw_any<R>(master, m, v, gradient, n, factors);                                                      \
  }

TESSERA_CPU_ROW_KERNELS(float)
TESSERA_CPU_ROW_KERNELS(double)

}  // namespace tessera::cpu
