// SPDX-License-Identifier: Apache-2.0
// In double everything is written as in a book, with the functions of libm: this is what gradients are
// checked with.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "framework/backends/cpu/row_kernels.h"

namespace tessera::cpu {
namespace {

// Value and derivative at one point.
struct Curve {
  double value, slope;
};

Curve curve(Activation kind, double x) {
  switch (kind) {
    case Activation::None:
      break;
    case Activation::Relu:
      return x > 0 ? Curve{x, 1} : Curve{0, 0};
    case Activation::Silu: {
      const double s = 1 / (1 + std::exp(-x));
      return {x * s, s * (1 + x * (1 - s))};
    }
    case Activation::Gelu: {
      const double p = 0.5 * (1 + std::erf(x * 0.70710678118654752440));
      return {x * p, p + x * 0.39894228040143267794 * std::exp(-0.5 * x * x)};
    }
    case Activation::GeluTanh: {
      constexpr double a = 0.79788456080286535588, b = 0.044715;
      const double z = a * (x + b * x * x * x), t = std::tanh(z), sech = 1 / std::cosh(z);
      return {0.5 * x * (1 + t), 0.5 * (1 + t) + 0.5 * x * sech * sech * a * (1 + 3 * b * x * x)};
    }
  }
  return {x, 1};
}

}  // namespace

void layer_norm_row(const double* x, const double* gain, const double* bias, double* y, int64_t n,
                    double epsilon, double& mean, double& inv_std) {
  double sum = 0, squares = 0;
  for (int64_t i = 0; i < n; ++i) sum += x[i];
  mean = sum / static_cast<double>(n);
  for (int64_t i = 0; i < n; ++i) squares += (x[i] - mean) * (x[i] - mean);
  inv_std = 1 / std::sqrt(squares / static_cast<double>(n) + epsilon);
  for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * inv_std * gain[i] + (bias ? bias[i] : 0);
}

void layer_norm_backward_row(const double* dy, const double* x, const double* gain, double mean,
                             double inv_std, double* dx, double* dgain, double* dbias, int64_t n) {
  double sum = 0, sum_normal = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double normal = (x[i] - mean) * inv_std, g = dy[i] * gain[i];
    sum += g;
    sum_normal += g * normal;
    if (dgain) dgain[i] += dy[i] * normal;
    if (dbias) dbias[i] += dy[i];
  }
  const double mean_g = sum / static_cast<double>(n), mean_normal = sum_normal / static_cast<double>(n);
  for (int64_t i = 0; i < n; ++i)
    dx[i] = (dy[i] * gain[i] - mean_g - (x[i] - mean) * inv_std * mean_normal) * inv_std;
}

void rms_norm_row(const double* x, const double* gain, double* y, int64_t n, double epsilon,
                  double& inv_rms) {
  double squares = 0;
  for (int64_t i = 0; i < n; ++i) squares += x[i] * x[i];
  inv_rms = 1 / std::sqrt(squares / static_cast<double>(n) + epsilon);
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] * inv_rms * gain[i];
}

void rms_norm_backward_row(const double* dy, const double* x, const double* gain, double inv_rms, double* dx,
                           double* dgain, int64_t n) {
  double sum_normal = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double normal = x[i] * inv_rms;
    sum_normal += dy[i] * gain[i] * normal;
    if (dgain) dgain[i] += dy[i] * normal;
  }
  const double mean_normal = sum_normal / static_cast<double>(n);
  for (int64_t i = 0; i < n; ++i) dx[i] = (dy[i] * gain[i] - x[i] * inv_rms * mean_normal) * inv_rms;
}

void activation_row(Activation kind, const double* x, double* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = curve(kind, x[i]).value;
}
void activation_backward_row(Activation kind, const double* dy, const double* x, double* dx, int64_t n) {
  for (int64_t i = 0; i < n; ++i) dx[i] = dy[i] * curve(kind, x[i]).slope;
}
void gated_row(Activation kind, const double* gate, const double* up, double* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = curve(kind, gate[i]).value * up[i];
}
void gated_backward_row(Activation kind, const double* dy, const double* gate, const double* up,
                        double* dgate, double* dup, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const Curve c = curve(kind, gate[i]);
    const double gradient = dy[i] * up[i] * c.slope;
    dup[i] = dy[i] * c.value;
    dgate[i] = gradient;
  }
}

void softmax_stats_row(const double* x, int64_t n, double& maximum, double& sum_exp, double& sum) {
  maximum = -std::numeric_limits<double>::infinity();
  for (int64_t i = 0; i < n; ++i) maximum = std::max(maximum, x[i]);
  sum_exp = sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    sum_exp += std::exp(x[i] - maximum);
    sum += x[i];
  }
}
void softmax_gradient_row(const double* x, double* dx, int64_t n, double maximum, double factor,
                          double shift) {
  for (int64_t i = 0; i < n; ++i) dx[i] = std::exp(x[i] - maximum) * factor - shift;
}

void rotate_row(double* head, const double* cosines, const double* sines, double sign, int64_t half) {
  for (int64_t c = 0; c < half; ++c) {
    const double a = head[c], b = head[c + half], sine = sign * sines[c];
    head[c] = a * cosines[c] - b * sine;
    head[c + half] = b * cosines[c] + a * sine;
  }
}

void adamw_row(double* master, double* m, double* v, const double* gradient, int64_t n,
               const AdamwFactors<double>& f) {
  for (int64_t i = 0; i < n; ++i) {
    const double g = gradient[i] * f.gradient_factor;
    m[i] = f.beta1 * m[i] + f.one_minus_beta1 * g;
    v[i] = f.beta2 * v[i] + f.one_minus_beta2 * (g * g);
    const double denominator = std::sqrt(v[i]) * f.inv_sqrt_correction2 + f.epsilon;
    master[i] = master[i] * f.decay_factor - f.step_size * (m[i] / denominator);
  }
}

void sgd_row(double* master, double* velocity, const double* gradient, int64_t n,
             const SgdFactors<double>& f) {
  for (int64_t i = 0; i < n; ++i) {
    double step = gradient[i] * f.gradient_factor;
    if (velocity) step = velocity[i] = f.momentum * velocity[i] + step;
    master[i] = master[i] * f.decay_factor - f.rate * step;
  }
}

void add_row(const double* a, const double* b, double* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = a[i] + b[i];
}
void scale_row(const double* x, double factor, double* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] * factor;
}
double sum_squares_row(const double* x, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += x[i] * x[i];
  return sum;
}

}  // namespace tessera::cpu
