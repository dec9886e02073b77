// SPDX-License-Identifier: Apache-2.0
// Vectors of fp32 or double from and to storage of any element type; BF16 and F16 widen exactly and round to
// nearest even. The forms with a count touch that many elements of memory and no more.
// Include inside a foreach_target source, after simd_targets.h.
#if defined(TESSERA_VECTOR_CONVERT_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_VECTOR_CONVERT_INL_H
#undef TESSERA_VECTOR_CONVERT_INL_H
#else
#define TESSERA_VECTOR_CONVERT_INL_H
#endif

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "framework/tensor/dtype.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class D, class S>
HWY_INLINE hn::Vec<D> load(D d, const S* HWY_RESTRICT from) {
  if constexpr (std::is_same_v<S, hn::TFromD<D>>) {
    return hn::LoadU(d, from);
  } else if constexpr (std::is_same_v<S, BFloat16>) {
    const hn::RebindToUnsigned<D> du;
    const hn::Rebind<uint16_t, D> du16;
    const auto bits = hn::PromoteTo(du, hn::LoadU(du16, reinterpret_cast<const uint16_t*>(from)));
    return hn::BitCast(d, hn::ShiftLeft<16>(bits));
  } else {
    static_assert(std::is_same_v<S, Float16>, "not a storage type");
#if HWY_TARGET == HWY_SCALAR
    return hn::Set(d, static_cast<float>(*from));
#else
    const hn::Rebind<hwy::float16_t, D> d16;
    return hn::PromoteTo(d, hn::LoadU(d16, reinterpret_cast<const hwy::float16_t*>(from)));
#endif
  }
}

template <class D, class S>
HWY_INLINE void store(D d, hn::Vec<D> value, S* HWY_RESTRICT to) {
  if constexpr (std::is_same_v<S, hn::TFromD<D>>) {
    hn::StoreU(value, d, to);
  } else if constexpr (std::is_same_v<S, BFloat16>) {
    const hn::RebindToUnsigned<D> du;
    const hn::RebindToSigned<D> di;
    const hn::Rebind<uint16_t, D> du16;
    const auto bits = hn::BitCast(du, value);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1));
    const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7fff)));
    const auto quiet = hn::Or(bits, hn::Set(du, 0x400000));
    const auto is_nan =
        hn::Gt(hn::And(hn::BitCast(di, bits), hn::Set(di, 0x7fffffff)), hn::Set(di, 0x7f800000));
    const auto kept = hn::IfThenElse(hn::RebindMask(du, is_nan), quiet, rounded);
    hn::StoreU(hn::DemoteTo(du16, hn::BitCast(di, hn::ShiftRight<16>(kept))), du16,
               reinterpret_cast<uint16_t*>(to));
  } else {
    static_assert(std::is_same_v<S, Float16>, "not a storage type");
#if HWY_TARGET == HWY_SCALAR
    *to = Float16(value.raw);
#else
    const hn::Rebind<hwy::float16_t, D> d16;
    hn::StoreU(hn::DemoteTo(d16, value), d16, reinterpret_cast<hwy::float16_t*>(to));
#endif
  }
}

// Lanes from `count` on are zero.
template <class D, class S>
HWY_INLINE hn::Vec<D> load(D d, const S* HWY_RESTRICT from, int64_t count) {
  constexpr int64_t lanes = static_cast<int64_t>(HWY_LANES(hn::TFromD<D>));
  if (HWY_LIKELY(count >= lanes)) return load(d, from);
  S buffer[static_cast<size_t>(lanes)] = {};
  for (int64_t i = 0; i < count; ++i) buffer[i] = from[i];
  return load(d, buffer);
}

template <class D, class S>
HWY_INLINE void store(D d, hn::Vec<D> value, S* HWY_RESTRICT to, int64_t count) {
  constexpr int64_t lanes = static_cast<int64_t>(HWY_LANES(hn::TFromD<D>));
  if (HWY_LIKELY(count >= lanes)) return store(d, value, to);
  S buffer[static_cast<size_t>(lanes)];
  store(d, value, buffer);
  for (int64_t i = 0; i < count; ++i) to[i] = buffer[i];
}

}  // namespace tessera::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
