// SPDX-License-Identifier: Apache-2.0
#include "framework/backends/cpu/row_kernels.h"

#include "framework/backends/cpu/element.h"
#include "framework/backends/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "framework/backends/cpu/row_kernels.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "framework/backends/cpu/sixteen-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

HWY_INLINE V at(const float* x, int64_t column, int64_t count) {
  return load(D(), x + column, count);
}
HWY_INLINE void put(V value, float* y, int64_t column, int64_t count) {
  store(D(), value, y + column, count);
}

// y = body(column, count) for the vectors of a row.
template <class F>
HWY_INLINE void for_vectors(float* y, int64_t n, F&& body) {
  for (int64_t c = 0; c < n; c += kVectorLanes) put(body(c, n - c), y, c, n - c);
}

void layer_norm(const float* x, const float* gain, const float* bias, float* y, int64_t n, float epsilon,
                float* mean, float* inv_std) {
  const D d;
  Sixteen sum(0), squares(0);
  for_sixteens(n,
               [&](int i, int64_t c, int64_t count) { sum.part[i] = hn::Add(sum.part[i], at(x, c, count)); });
  *mean = total(sum) / static_cast<float>(n);
  const V middle = hn::Set(d, *mean);
  for_sixteens(n, [&](int i, int64_t c, int64_t count) {
    const V difference = first_lanes(d, hn::Sub(at(x, c, count), middle), count);
    squares.part[i] = fused_multiply_add(difference, difference, squares.part[i]);
  });
  *inv_std = 1 / std::sqrt(total(squares) / static_cast<float>(n) + epsilon);
  const V factor = hn::Set(d, *inv_std);
  for_vectors(y, n, [&](int64_t c, int64_t count) {
    const V normal = hn::Mul(hn::Sub(at(x, c, count), middle), factor);
    return fused_multiply_add(normal, at(gain, c, count), bias ? at(bias, c, count) : hn::Zero(d));
  });
}

void layer_norm_backward(const float* dy, const float* x, const float* gain, float mean, float inv_std,
                         float* dx, float* dgain, float* dbias, int64_t n) {
  const D d;
  const V middle = hn::Set(d, mean), factor = hn::Set(d, inv_std);
  Sixteen sum(0), sum_normal(0);
  for_sixteens(n, [&](int i, int64_t c, int64_t count) {
    if (count <= 0) return;
    const V slope = at(dy, c, count), normal = hn::Mul(hn::Sub(at(x, c, count), middle), factor);
    const V g = hn::Mul(slope, at(gain, c, count));
    sum.part[i] = hn::Add(sum.part[i], g);
    sum_normal.part[i] = fused_multiply_add(g, normal, sum_normal.part[i]);
    if (dgain) put(fused_multiply_add(slope, normal, at(dgain, c, count)), dgain, c, count);
    if (dbias) put(hn::Add(slope, at(dbias, c, count)), dbias, c, count);
  });
  const V mean_g = hn::Set(d, total(sum) / static_cast<float>(n));
  const V mean_normal = hn::Set(d, -total(sum_normal) / static_cast<float>(n));
  for_vectors(dx, n, [&](int64_t c, int64_t count) {
    const V normal = hn::Mul(hn::Sub(at(x, c, count), middle), factor);
    const V g = hn::Sub(hn::Mul(at(dy, c, count), at(gain, c, count)), mean_g);
    return hn::Mul(fused_multiply_add(normal, mean_normal, g), factor);
  });
}

void rms_norm(const float* x, const float* gain, float* y, int64_t n, float epsilon, float* inv_rms) {
  Sixteen squares(0);
  for_sixteens(n, [&](int i, int64_t c, int64_t count) {
    const V value = at(x, c, count);
    squares.part[i] = fused_multiply_add(value, value, squares.part[i]);
  });
  *inv_rms = 1 / std::sqrt(total(squares) / static_cast<float>(n) + epsilon);
  const V factor = hn::Set(D(), *inv_rms);
  for_vectors(y, n, [&](int64_t c, int64_t count) {
    return hn::Mul(hn::Mul(at(x, c, count), factor), at(gain, c, count));
  });
}

void rms_norm_backward(const float* dy, const float* x, const float* gain, float inv_rms, float* dx,
                       float* dgain, int64_t n) {
  const D d;
  const V factor = hn::Set(d, inv_rms);
  Sixteen sum(0);
  for_sixteens(n, [&](int i, int64_t c, int64_t count) {
    if (count <= 0) return;
    const V slope = at(dy, c, count), normal = hn::Mul(at(x, c, count), factor);
    sum.part[i] = fused_multiply_add(hn::Mul(slope, at(gain, c, count)), normal, sum.part[i]);
    if (dgain) put(fused_multiply_add(slope, normal, at(dgain, c, count)), dgain, c, count);
  });
  const V mean_normal = hn::Set(d, -total(sum) / static_cast<float>(n));
  for_vectors(dx, n, [&](int64_t c, int64_t count) {
    const V normal = hn::Mul(at(x, c, count), factor);
    const V g = hn::Mul(at(dy, c, count), at(gain, c, count));
    return hn::Mul(fused_multiply_add(normal, mean_normal, g), factor);
  });
}

// Calls body with a function from x to value and slope.
template <class F>
HWY_INLINE void with_curve(Activation kind, F&& body) {
  const D d;
  switch (kind) {
    case Activation::None:
      return body([d](V x) { return Curve<V>{x, hn::Set(d, 1.0f)}; });
    case Activation::Gelu:
      return body([d](V x) { return gelu(d, x); });
    case Activation::GeluTanh:
      return body([d](V x) { return gelu_tanh(d, x); });
    case Activation::Silu:
      return body([d](V x) { return silu(d, x); });
    case Activation::Relu:
      return body([d](V x) { return relu(d, x); });
  }
}

void activate(Activation kind, const float* x, float* y, int64_t n) {
  with_curve(kind, [&](auto curve) {
    for_vectors(y, n, [&](int64_t c, int64_t count) { return curve(at(x, c, count)).value; });
  });
}

void activate_backward(Activation kind, const float* dy, const float* x, float* dx, int64_t n) {
  with_curve(kind, [&](auto curve) {
    for_vectors(dx, n, [&](int64_t c, int64_t count) {
      return hn::Mul(at(dy, c, count), curve(at(x, c, count)).slope);
    });
  });
}

void gate(Activation kind, const float* x, const float* up, float* y, int64_t n) {
  with_curve(kind, [&](auto curve) {
    for_vectors(y, n, [&](int64_t c, int64_t count) {
      return hn::Mul(curve(at(x, c, count)).value, at(up, c, count));
    });
  });
}

void gate_backward(Activation kind, const float* dy, const float* x, const float* up, float* dx, float* dup,
                   int64_t n) {
  with_curve(kind, [&](auto curve) {
    for_vectors(dx, n, [&](int64_t c, int64_t count) {
      const auto point = curve(at(x, c, count));
      const V slope = at(dy, c, count), gradient = hn::Mul(hn::Mul(slope, at(up, c, count)), point.slope);
      put(hn::Mul(slope, point.value), dup, c, count);
      return gradient;
    });
  });
}

void softmax_stats(const float* x, int64_t n, float* maximum, float* sum_exp, float* sum) {
  const D d;
  constexpr float infinity = std::numeric_limits<float>::infinity();
  Sixteen top(-infinity), exponentials(0), plain(0);
  for_sixteens(n, [&](int i, int64_t c, int64_t count) {
    if (count >= kVectorLanes)
      top.part[i] = hn::Max(top.part[i], hn::LoadU(d, x + c));
    else
      for (int64_t l = 0; l < count; ++l) top.part[i] = hn::Max(top.part[i], hn::Set(d, x[c + l]));
  });
  *maximum = largest(top);
  const V shift = hn::Set(d, *maximum);
  for_sixteens(n, [&](int i, int64_t c, int64_t count) {
    const V value = at(x, c, count);
    exponentials.part[i] =
        hn::Add(exponentials.part[i], first_lanes(d, exp_weight(d, hn::Sub(value, shift)), count));
    plain.part[i] = hn::Add(plain.part[i], value);
  });
  *sum_exp = total(exponentials);
  *sum = total(plain);
}

void softmax_gradient(const float* x, float* dx, int64_t n, float maximum, float factor, float shift) {
  const D d;
  const V top = hn::Set(d, maximum), times = hn::Set(d, factor), minus = hn::Set(d, shift);
  for_vectors(dx, n, [&](int64_t c, int64_t count) {
    return hn::Sub(hn::Mul(exp_weight(d, hn::Sub(at(x, c, count), top)), times), minus);
  });
}

void rotate(float* head, const float* cosines, const float* sines, float sign, int64_t half) {
  const V turn = hn::Set(D(), sign);
  for_vectors(head, half, [&](int64_t c, int64_t count) {
    const V a = at(head, c, count), b = at(head + half, c, count);
    const V cosine = at(cosines, c, count), sine = hn::Mul(turn, at(sines, c, count));
    put(fused_multiply_add(a, sine, hn::Mul(b, cosine)), head + half, c, count);
    return hn::Sub(hn::Mul(a, cosine), hn::Mul(b, sine));
  });
}

void adamw(float* master, float* m, float* v, const float* gradient, int64_t n,
           const AdamwFactors<float>& f) {
  const D d;
  const V factor = hn::Set(d, f.gradient_factor), epsilon = hn::Set(d, f.epsilon);
  const V beta1 = hn::Set(d, f.beta1), rest1 = hn::Set(d, f.one_minus_beta1);
  const V beta2 = hn::Set(d, f.beta2), rest2 = hn::Set(d, f.one_minus_beta2);
  const V step = hn::Set(d, f.step_size), correction = hn::Set(d, f.inv_sqrt_correction2);
  const V decay = hn::Set(d, f.decay_factor);
  for_vectors(master, n, [&](int64_t c, int64_t count) {
    const V g = hn::Mul(at(gradient, c, count), factor);
    const V first = fused_multiply_add(rest1, g, hn::Mul(beta1, at(m, c, count)));
    const V second = fused_multiply_add(rest2, hn::Mul(g, g), hn::Mul(beta2, at(v, c, count)));
    put(first, m, c, count);
    put(second, v, c, count);
    const V denominator = fused_multiply_add(hn::Sqrt(second), correction, epsilon);
    return hn::Sub(hn::Mul(at(master, c, count), decay), hn::Mul(step, hn::Div(first, denominator)));
  });
}

void sgd(float* master, float* velocity, const float* gradient, int64_t n, const SgdFactors<float>& f) {
  const D d;
  const V factor = hn::Set(d, f.gradient_factor), momentum = hn::Set(d, f.momentum);
  const V rate = hn::Set(d, f.rate), decay = hn::Set(d, f.decay_factor);
  for_vectors(master, n, [&](int64_t c, int64_t count) {
    V step = hn::Mul(at(gradient, c, count), factor);
    if (velocity) {
      step = fused_multiply_add(momentum, at(velocity, c, count), step);
      put(step, velocity, c, count);
    }
    return hn::Sub(hn::Mul(at(master, c, count), decay), hn::Mul(rate, step));
  });
}

void add(const float* a, const float* b, float* y, int64_t n) {
  for_vectors(y, n, [&](int64_t c, int64_t count) { return hn::Add(at(a, c, count), at(b, c, count)); });
}

void scale(const float* x, float factor, float* y, int64_t n) {
  const V times = hn::Set(D(), factor);
  for_vectors(y, n, [&](int64_t c, int64_t count) { return hn::Mul(at(x, c, count), times); });
}

// Squares in double; the compiler makes vectors of the sixteen running sums.
double sum_squares(const float* x, int64_t n) {
  double lanes[16] = {};
  int64_t i = 0;
  for (; i + 16 <= n; i += 16)
    for (int64_t l = 0; l < 16; ++l)
      lanes[l] += static_cast<double>(x[i + l]) * static_cast<double>(x[i + l]);
  for (int64_t l = 0; i < n; ++i, ++l) lanes[l] += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  for (int64_t half = 8; half > 0; half /= 2)
    for (int64_t l = 0; l < half; ++l) lanes[l] += lanes[l + half];
  return lanes[0];
}

template <class S>
void widen_any(const S* from, float* to, int64_t n) {
  for (int64_t c = 0; c < n; c += kVectorLanes) put(load(D(), from + c, n - c), to, c, n - c);
}
template <class S>
void narrow_any(const float* from, S* to, int64_t n) {
  for (int64_t c = 0; c < n; c += kVectorLanes) store(D(), at(from, c, n - c), to + c, n - c);
}
void widen_bf16(const BFloat16* from, float* to, int64_t n) {
  widen_any(from, to, n);
}
void widen_f16(const Float16* from, float* to, int64_t n) {
  widen_any(from, to, n);
}
void narrow_bf16(const float* from, BFloat16* to, int64_t n) {
  narrow_any(from, to, n);
}
void narrow_f16(const float* from, Float16* to, int64_t n) {
  narrow_any(from, to, n);
}

}  // namespace
}  // namespace tessera::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu {
namespace {
HWY_EXPORT(layer_norm);
HWY_EXPORT(layer_norm_backward);
HWY_EXPORT(rms_norm);
HWY_EXPORT(rms_norm_backward);
HWY_EXPORT(activate);
HWY_EXPORT(activate_backward);
HWY_EXPORT(gate);
HWY_EXPORT(gate_backward);
HWY_EXPORT(softmax_stats);
HWY_EXPORT(softmax_gradient);
HWY_EXPORT(rotate);
HWY_EXPORT(adamw);
HWY_EXPORT(sgd);
HWY_EXPORT(add);
HWY_EXPORT(scale);
HWY_EXPORT(sum_squares);
HWY_EXPORT(widen_bf16);
HWY_EXPORT(widen_f16);
HWY_EXPORT(narrow_bf16);
HWY_EXPORT(narrow_f16);
}  // namespace

void layer_norm_row(const float* x, const float* gain, const float* bias, float* y, int64_t n, double epsilon,
                    float& mean, float& inv_std) {
  HWY_DYNAMIC_DISPATCH(layer_norm)(x, gain, bias, y, n, static_cast<float>(epsilon), &mean, &inv_std);
}
void layer_norm_backward_row(const float* dy, const float* x, const float* gain, float mean, float inv_std,
                             float* dx, float* dgain, float* dbias, int64_t n) {
  HWY_DYNAMIC_DISPATCH(layer_norm_backward)(dy, x, gain, mean, inv_std, dx, dgain, dbias, n);
}
void rms_norm_row(const float* x, const float* gain, float* y, int64_t n, double epsilon, float& inv_rms) {
  HWY_DYNAMIC_DISPATCH(rms_norm)(x, gain, y, n, static_cast<float>(epsilon), &inv_rms);
}
void rms_norm_backward_row(const float* dy, const float* x, const float* gain, float inv_rms, float* dx,
                           float* dgain, int64_t n) {
  HWY_DYNAMIC_DISPATCH(rms_norm_backward)(dy, x, gain, inv_rms, dx, dgain, n);
}
void activation_row(Activation kind, const float* x, float* y, int64_t n) {
  HWY_DYNAMIC_DISPATCH(activate)(kind, x, y, n);
}
void activation_backward_row(Activation kind, const float* dy, const float* x, float* dx, int64_t n) {
  HWY_DYNAMIC_DISPATCH(activate_backward)(kind, dy, x, dx, n);
}
void gated_row(Activation kind, const float* x, const float* up, float* y, int64_t n) {
  HWY_DYNAMIC_DISPATCH(gate)(kind, x, up, y, n);
}
void gated_backward_row(Activation kind, const float* dy, const float* x, const float* up, float* dx,
                        float* dup, int64_t n) {
  HWY_DYNAMIC_DISPATCH(gate_backward)(kind, dy, x, up, dx, dup, n);
}
void softmax_stats_row(const float* x, int64_t n, float& maximum, float& sum_exp, float& sum) {
  HWY_DYNAMIC_DISPATCH(softmax_stats)(x, n, &maximum, &sum_exp, &sum);
}
void softmax_gradient_row(const float* x, float* dx, int64_t n, float maximum, float factor, float shift) {
  HWY_DYNAMIC_DISPATCH(softmax_gradient)(x, dx, n, maximum, factor, shift);
}
void rotate_row(float* head, const float* cosines, const float* sines, float sign, int64_t half) {
  HWY_DYNAMIC_DISPATCH(rotate)(head, cosines, sines, sign, half);
}
void adamw_row(float* master, float* m, float* v, const float* gradient, int64_t n,
               const AdamwFactors<float>& factors) {
  HWY_DYNAMIC_DISPATCH(adamw)(master, m, v, gradient, n, factors);
}
void sgd_row(float* master, float* velocity, const float* gradient, int64_t n,
             const SgdFactors<float>& factors) {
  HWY_DYNAMIC_DISPATCH(sgd)(master, velocity, gradient, n, factors);
}
void add_row(const float* a, const float* b, float* y, int64_t n) {
  HWY_DYNAMIC_DISPATCH(add)(a, b, y, n);
}
void scale_row(const float* x, float factor, float* y, int64_t n) {
  HWY_DYNAMIC_DISPATCH(scale)(x, factor, y, n);
}
double sum_squares_row(const float* x, int64_t n) {
  return HWY_DYNAMIC_DISPATCH(sum_squares)(x, n);
}

void widen(const BFloat16* from, float* to, int64_t count) {
  HWY_DYNAMIC_DISPATCH(widen_bf16)(from, to, count);
}
void widen(const Float16* from, float* to, int64_t count) {
  HWY_DYNAMIC_DISPATCH(widen_f16)(from, to, count);
}
void narrow(const float* from, BFloat16* to, int64_t count) {
  HWY_DYNAMIC_DISPATCH(narrow_bf16)(from, to, count);
}
void narrow(const float* from, Float16* to, int64_t count) {
  HWY_DYNAMIC_DISPATCH(narrow_f16)(from, to, count);
}

}  // namespace tessera::cpu
#endif
