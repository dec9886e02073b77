// SPDX-License-Identifier: Apache-2.0
#include "framework/backends/cpu/element.h"
#include "framework/backends/cpu/row_kernels.h"
#include "framework/backends/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "framework/backends/cpu/row_elements.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "framework/backends/cpu/row_vectors-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::HWY_NAMESPACE {
namespace {

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
