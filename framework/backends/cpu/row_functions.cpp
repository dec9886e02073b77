// SPDX-License-Identifier: Apache-2.0
#include "framework/backends/cpu/row_kernels.h"
#include "framework/backends/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "framework/backends/cpu/row_functions.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "framework/backends/cpu/row_vectors-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::HWY_NAMESPACE {
namespace {

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

}  // namespace tessera::cpu
#endif
