// SPDX-License-Identifier: Apache-2.0
// exp, log, tanh, sigmoid, erf and the activations on vectors of fp32. Over the whole range the error stays
// below 1.5 units in the last place for exp, log and erf, 3.5 for the rest (5.5 for gelu below -6); slopes
// of activations: 2.5 units of the larger of slope and 1/4. Only operations that every instruction set
// rounds alike are used, so all targets give the same bits. NaN stays NaN; what is below 2^-125 (activations:
// 2^-118) may be zero. Include inside a foreach_target source, after simd_targets.h.
#if defined(TESSERA_VECTOR_MATH_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_VECTOR_MATH_INL_H
#undef TESSERA_VECTOR_MATH_INL_H
#else
#define TESSERA_VECTOR_MATH_INL_H
#endif

#include <cmath>
#include <limits>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// x * y + sum, rounded once on every target.
template <class V>
HWY_INLINE V fused_multiply_add(V x, V y, V sum) {
#if HWY_TARGET == HWY_SCALAR
  return V(std::fma(x.raw, y.raw, sum.raw));
#else
  return hn::MulAdd(x, y, sum);
#endif
}

// Coefficients from the highest power down.
template <class D, class V>
HWY_INLINE V polynomial(D, V, V sum) {
  return sum;
}
template <class D, class V, class... Rest>
HWY_INLINE V polynomial(D d, V x, V sum, float coefficient, Rest... rest) {
  return polynomial(d, x, fused_multiply_add(sum, x, hn::Set(d, coefficient)), rest...);
}

// The smaller and the larger, with NaN in x kept.
template <class D, class V>
HWY_INLINE V at_most(D d, V x, float limit) {
  const V bound = hn::Set(d, limit);
  return hn::IfThenElse(hn::Gt(x, bound), bound, x);
}
template <class D, class V>
HWY_INLINE V at_least(D d, V x, float limit) {
  const V bound = hn::Set(d, limit);
  return hn::IfThenElse(hn::Lt(x, bound), bound, x);
}

// exp(x) = 2^power * (1 + fraction_minus_one).
template <class D>
struct SplitExp {
  hn::Vec<D> minus_one;
  hn::Vec<hn::RebindToSigned<D>> power;
};

// For |x| < 2^20; x_low is a small addend below the precision of x.
template <class D, class V>
HWY_INLINE SplitExp<D> split_exp(D d, V x, V x_low) {
  const hn::RebindToSigned<D> di;
  // Adding 1.5 * 2^23 leaves the nearest integer in the low bits.
  const V magic = hn::Set(d, 12582912.0f);
  const V shifted = fused_multiply_add(x, hn::Set(d, 1.44269504f), magic);
  const V power = hn::Sub(shifted, magic);
  V r = fused_multiply_add(power, hn::Set(d, -0x1.62e430p-1f), x);
  r = hn::Add(fused_multiply_add(power, hn::Set(d, 0x1.05c610p-29f), r), x_low);
  const V q = polynomial(d, r, hn::Set(d, 0x1.6a215ap-10f), 0x1.123b9ap-7f, 0x1.5558fcp-5f, 0x1.555490p-3f,
                         0x1.fffffcp-2f);
  return {fused_multiply_add(hn::Mul(r, r), q, r), hn::Sub(hn::BitCast(di, shifted), hn::BitCast(di, magic))};
}

template <class D, class VI>
HWY_INLINE hn::Vec<D> power_of_two(D d, VI exponent) {
  const hn::RebindToSigned<D> di;
  return hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(exponent, hn::Set(di, 127))));
}

// Arithmetic on subnormal numbers is a hundred times slower, so results below 2^-126 are zero: for x below
// this.
constexpr float kLeastExponent = -87.0f;

template <class D, class V>
HWY_INLINE V exp(D d, V x) {
  const auto split = split_exp(d, at_most(d, at_least(d, x, kLeastExponent), 89.0f), hn::Zero(d));
  const V value = hn::Add(hn::Set(d, 1.0f), split.minus_one);
  // In two steps, because 2^128 is not a number but its product with the value may be.
  const auto half = hn::ShiftRight<1>(split.power);
  const V result =
      hn::Mul(hn::Mul(value, power_of_two(d, half)), power_of_two(d, hn::Sub(split.power, half)));
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, kLeastExponent)), result);
}

// exp(x + x_low) for x in [kLeastExponent, 0].
template <class D, class V>
HWY_INLINE V exp_of_negative(D d, V x, V x_low) {
  const auto split = split_exp(d, x, x_low);
  const V scale = power_of_two(d, split.power);
  return fused_multiply_add(scale, split.minus_one, scale);
}

template <class D, class V>
HWY_INLINE V log(D d, V x) {
  const hn::RebindToSigned<D> di;
  const auto subnormal = hn::Lt(x, hn::Set(d, 0x1p-126f));
  const V scaled = hn::IfThenElse(subnormal, hn::Mul(x, hn::Set(d, 0x1p23f)), x);
  // x = 2^exponent * m with m in [sqrt(1/2), sqrt(2)).
  const auto bits = hn::BitCast(di, scaled);
  const auto exponent = hn::ShiftRight<23>(hn::Sub(bits, hn::Set(di, 0x3f3504f3)));
  const V f = hn::Sub(hn::BitCast(d, hn::Sub(bits, hn::ShiftLeft<23>(exponent))), hn::Set(d, 1.0f));
  const V e = hn::Add(hn::ConvertTo(d, exponent), hn::IfThenElseZero(subnormal, hn::Set(d, -23.0f)));
  const V q = polynomial(d, f, hn::Set(d, 0x1.14ca4ep-4f), -0x1.df0000p-4f, 0x1.e72882p-4f, -0x1.fc07c2p-4f,
                         0x1.23322cp-3f, -0x1.555cccp-3f, 0x1.99a4f6p-3f, -0x1.000006p-2f, 0x1.555546p-2f);
  const V f2 = hn::Mul(f, f);
  V small = fused_multiply_add(e, hn::Set(d, -0x1.05c610p-29f), hn::Mul(hn::Mul(f2, f), q));
  small = hn::Add(fused_multiply_add(f2, hn::Set(d, -0.5f), small), f);
  V result = fused_multiply_add(e, hn::Set(d, 0x1.62e430p-1f), small);
  const V infinity = hn::Set(d, std::numeric_limits<float>::infinity());
  // Infinity and NaN are their own logarithm.
  result = hn::IfThenElse(hn::Lt(x, infinity), result, x);
  result =
      hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Set(d, std::numeric_limits<float>::quiet_NaN()), result);
  return hn::IfThenElse(hn::Eq(x, hn::Zero(d)), hn::Neg(infinity), result);
}

template <class D, class V>
HWY_INLINE V tanh(D d, V x) {
  const V doubled = hn::Mul(hn::Set(d, 2.0f), at_most(d, hn::Abs(x), 10.0f));
  const auto split = split_exp(d, doubled, hn::Zero(d));
  const V scale = power_of_two(d, split.power);
  const V minus_one = fused_multiply_add(scale, split.minus_one, hn::Sub(scale, hn::Set(d, 1.0f)));
  return hn::CopySign(hn::Div(minus_one, hn::Add(minus_one, hn::Set(d, 2.0f))), x);
}

// Sigmoid of x + x_low and of its negative, both to full relative precision; zero below 2^-125.
template <class V>
struct SigmoidPair {
  V at_x, at_minus_x;
};
template <class D, class V>
HWY_INLINE SigmoidPair<V> sigmoid_pair(D d, V x, V x_low) {
  const auto negative = hn::Lt(x, hn::Zero(d));
  const V size = hn::Neg(hn::Abs(x));
  const V e =
      exp_of_negative(d, at_least(d, size, kLeastExponent), hn::IfThenElse(negative, x_low, hn::Neg(x_low)));
  const V larger = hn::Div(hn::Set(d, 1.0f), hn::Add(hn::Set(d, 1.0f), e));
  const V smaller = hn::IfThenZeroElse(hn::Le(size, hn::Set(d, kLeastExponent)), hn::Mul(e, larger));
  return {hn::IfThenElse(negative, smaller, larger), hn::IfThenElse(negative, larger, smaller)};
}
template <class D, class V>
HWY_INLINE V sigmoid(D d, V x) {
  return sigmoid_pair(d, x, hn::Zero(d)).at_x;
}

// The normal distribution at t in [0, kFarthest]: exp(-t^2 / 2), and the mass above t, valid from t = 1 on.
// At the end both are small and not yet subnormal.
constexpr float kFarthest = 12.9f;
template <class V>
struct NormalTail {
  V mass, bell;
};
template <class D, class V>
HWY_INLINE NormalTail<V> normal_tail(D d, V t) {
  const V minus_half = hn::Set(d, -0.5f);
  const V square = hn::Mul(t, t);
  const V square_low = fused_multiply_add(t, t, hn::Neg(square));
  const V bell = exp_of_negative(d, hn::Mul(minus_half, square), hn::Mul(minus_half, square_low));
  // mass / bell * (t + 3) as a polynomial in (t - 3) / (t + 3).
  const V inverse = hn::Div(hn::Set(d, 1.0f), hn::Add(t, hn::Set(d, 3.0f)));
  const V u = fused_multiply_add(hn::Set(d, -6.0f), inverse, hn::Set(d, 1.0f));
  const V ratio =
      polynomial(d, u, hn::Set(d, -0x1.0b7c38p-10f), 0x1.dbe082p-11f, 0x1.c9a204p-8f, -0x1.5638acp-7f,
                 -0x1.83323cp-5f, 0x1.d71300p-3f, -0x1.04c726p-1f, 0x1.754a76p-1f);
  return {hn::Mul(bell, hn::Mul(ratio, inverse)), bell};
}

template <class D, class V>
HWY_INLINE V erf(D d, V x) {
  const V size = hn::Abs(x);
  const V square = hn::Mul(x, x);
  const V series = polynomial(d, square, hn::Set(d, 0x1.496a30p-14f), -0x1.a3f700p-11f, 0x1.5405b2p-8f,
                              -0x1.b7f90cp-6f, 0x1.ce2cf8p-4f, -0x1.81273ep-2f, 0x1.06eba8p-3f);
  const V t = hn::Mul(at_most(d, size, 9.0f), hn::Set(d, 1.41421356f));
  const V far = fused_multiply_add(hn::Set(d, -2.0f), normal_tail(d, t).mass, hn::Set(d, 1.0f));
  return hn::IfThenElse(hn::Lt(size, hn::Set(d, 1.0f)), fused_multiply_add(x, series, x),
                        hn::CopySign(far, x));
}

// An activation and its derivative at the same point.
template <class V>
struct Curve {
  V value, slope;
};

// x times the normal distribution function (the erf form).
template <class D, class V>
HWY_INLINE Curve<V> gelu(D d, V x) {
  const V t = at_most(d, hn::Abs(x), kFarthest);
  const auto tail = normal_tail(d, t);
  const V below = hn::IfThenZeroElse(hn::Eq(t, hn::Set(d, kFarthest)), tail.mass);
  const V far = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), below, hn::Sub(hn::Set(d, 1.0f), tail.mass));
  const V series = polynomial(d, hn::Mul(t, t), hn::Set(d, -0x1.00d526p-17f), 0x1.dbff10p-14f,
                              -0x1.36fd42p-10f, 0x1.46ce4cp-7f, -0x1.105832p-4f, 0x1.988454p-2f);
  const V near = fused_multiply_add(x, series, hn::Set(d, 0.5f));
  const V mass = hn::IfThenElse(hn::Lt(t, hn::Set(d, 1.0f)), near, far);
  const V density = hn::Mul(tail.bell, hn::Set(d, 0.398942280f));
  return {hn::Mul(x, mass), fused_multiply_add(hn::CopySign(t, x), density, mass)};
}

// x * (1 + tanh(z / 2)) / 2 = x * sigmoid(z), z = 2 sqrt(2 / pi) (x + 0.044715 x^3).
template <class D, class V>
HWY_INLINE Curve<V> gelu_tanh(D d, V x) {
  constexpr float a = 0x1.988454p+0f, a_low = -0x1.857936p-25f;
  constexpr float b = 0x1.2444f2p-4f, b_low = 0x1.49b16ap-29f;
  const V near = at_most(d, at_least(d, x, -20.0f), 20.0f);
  // z in two pieces: its rounding error would be magnified by exp.
  const V square = hn::Mul(near, near);
  const V square_low = fused_multiply_add(near, near, hn::Neg(square));
  const V product = hn::Mul(hn::Set(d, b), square);
  V low = fused_multiply_add(hn::Set(d, b), square, hn::Neg(product));
  low = fused_multiply_add(hn::Set(d, b), square_low, low);
  low = hn::Add(low, fused_multiply_add(hn::Set(d, b_low), square, hn::Set(d, a_low)));
  const V factor = hn::Add(hn::Set(d, a), product);
  const V added = hn::Sub(factor, hn::Set(d, a));
  low = hn::Add(low, hn::Add(hn::Sub(hn::Set(d, a), hn::Sub(factor, added)), hn::Sub(product, added)));
  const V z = hn::Mul(near, factor);
  const V z_low = fused_multiply_add(near, low, fused_multiply_add(near, factor, hn::Neg(z)));
  const auto s = sigmoid_pair(d, z, z_low);
  const V dz = fused_multiply_add(hn::Set(d, 3.0f * b), square, hn::Set(d, a));
  return {hn::Mul(x, s.at_x), fused_multiply_add(hn::Mul(near, hn::Mul(s.at_x, s.at_minus_x)), dz, s.at_x)};
}

// x * sigmoid(x)
template <class D, class V>
HWY_INLINE Curve<V> silu(D d, V x) {
  const auto s = sigmoid_pair(d, x, hn::Zero(d));
  const V near = at_most(d, at_least(d, x, -100.0f), 100.0f);
  return {hn::Mul(x, s.at_x), fused_multiply_add(near, hn::Mul(s.at_x, s.at_minus_x), s.at_x)};
}

template <class D, class V>
HWY_INLINE Curve<V> relu(D d, V x) {
  const auto off = hn::Le(x, hn::Zero(d));
  return {hn::IfThenZeroElse(off, x), hn::IfThenZeroElse(off, hn::Set(d, 1.0f))};
}

}  // namespace tessera::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
