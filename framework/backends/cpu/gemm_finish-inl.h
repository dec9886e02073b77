// SPDX-License-Identifier: Apache-2.0
// What happens to a tile of sums before it goes to memory: scale and addition of what was there, bias,
// activation, factor and residual. Everything works on the tile in place, one stage after another, while it
// is in the first-level cache; rows and columns past the edge are neither read nor written.
#if defined(TESSERA_GEMM_FINISH_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_GEMM_FINISH_INL_H
#undef TESSERA_GEMM_FINISH_INL_H
#else
#define TESSERA_GEMM_FINISH_INL_H
#endif

#include <algorithm>

#include "framework/backends/cpu/gemm.h"
#include "framework/backends/cpu/gemm_tile-inl.h"
#include "framework/backends/cpu/row_kernels.h"
#include "framework/backends/cpu/vector_convert-inl.h"
#include "framework/backends/cpu/vector_math-inl.h"
#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::HWY_NAMESPACE {

// Where a tile lies in c.
struct TilePlace {
  int64_t row, rows, column, columns;
};

// S is the type of the inputs, T of the arithmetic, C of the output.
template <class S, class T, class C>
class TileFinish {
 public:
  TileFinish(const GemmArgs& args, T* tile) : args_(args), tile_(tile) {}

  // What `finish` will touch. `scratch` is the place of partial sums when that is not c.
  void prefetch(const TilePlace& at, bool last, const T* scratch, int64_t ld_scratch, Prefetches& to) const {
    if (scratch) to.add_box(scratch, ld_scratch, at.rows, at.columns);
    if (last || !scratch) add_box<C>(args_.c, at, args_.ldc, to);
    if (!last) return;
    add_box<C>(args_.derivative, at, args_.ldc, to);
    add_box<S>(args_.multiply, at, args_.ldc, to);
    add_box<S>(args_.add, at, args_.ld_add, to);
  }

  // `partial` holds the sums of the k blocks so far, [rows, ld_partial] with the tile's first element at 0;
  // it may be c itself.
  void finish(const TilePlace& at, bool first, bool last, T* partial, int64_t ld_partial) {
    C* c = static_cast<C*>(args_.c) + offset(at, args_.ldc);
    if (!first)
      add_scaled(at, static_cast<const T*>(partial), ld_partial, T(1));
    else if (args_.beta != 0)
      add_scaled(at, static_cast<const C*>(c), args_.ldc, static_cast<T>(args_.beta));
    else if (args_.alpha != 1)
      each(at, [&](V value, int64_t, int64_t, int64_t) HWY_ATTR { return hn::Mul(alpha(), value); });
    if (!last) return write(at, tile_, partial, ld_partial);
    epilogue(at);
    write(at, tile_, c, args_.ldc);
  }

 private:
  using D = hn::ScalableTag<T>;
  using V = hn::Vec<D>;
  static constexpr int64_t kWidth = kTileColumns<T>;

  static int64_t offset(const TilePlace& at, int64_t stride) { return at.row * stride + at.column; }
  template <class E>
  static void add_box(const void* matrix, const TilePlace& at, int64_t stride, Prefetches& to) {
    if (matrix) to.add_box(static_cast<const E*>(matrix) + offset(at, stride), stride, at.rows, at.columns);
  }
  V alpha() const { return hn::Set(D(), static_cast<T>(args_.alpha)); }

  // tile = f(tile vector, row, column, columns left), for the part of the tile inside c.
  template <class F>
  HWY_INLINE void each(const TilePlace& at, const F& f) {
    const D d;
    for (int64_t r = 0; r < at.rows; ++r)
      for (int64_t j = 0; j < at.columns; j += kLanes<T>) {
        T* place = tile_ + r * kWidth + j;
        hn::Store(f(hn::Load(d, place), r, j, at.columns - j), d, place);
      }
  }

  // tile = alpha * tile + factor * from
  template <class E>
  void add_scaled(const TilePlace& at, const E* from, int64_t stride, T factor) {
    const D d;
    const V scale = alpha(), factors = hn::Set(d, factor);
    each(at, [&](V value, int64_t r, int64_t j, int64_t left) HWY_ATTR {
      return fused_multiply_add(scale, value, hn::Mul(factors, load(d, from + r * stride + j, left)));
    });
  }

  template <class E>
  void write(const TilePlace& at, const T* from, E* to, int64_t stride) {
    const D d;
    for (int64_t r = 0; r < at.rows; ++r)
      for (int64_t j = 0; j < at.columns; j += kLanes<T>)
        store(d, hn::Load(d, from + r * kWidth + j), to + r * stride + j, at.columns - j);
  }

  void epilogue(const TilePlace& at) {
    const D d;
    if (args_.bias) {
      const S* bias = static_cast<const S*>(args_.bias) + at.column;
      each(at, [&](V value, int64_t, int64_t j, int64_t left)
                   HWY_ATTR { return hn::Add(value, load(d, bias + j, left)); });
    }
    activate(at);
    if (args_.multiply) {
      const S* factors = static_cast<const S*>(args_.multiply) + offset(at, args_.ldc);
      each(at, [&](V value, int64_t r, int64_t j, int64_t left)
                   HWY_ATTR { return hn::Mul(value, load(d, factors + r * args_.ldc + j, left)); });
    }
    if (args_.add) {
      const S* terms = static_cast<const S*>(args_.add) + offset(at, args_.ld_add);
      each(at, [&](V value, int64_t r, int64_t j, int64_t left)
                   HWY_ATTR { return hn::Add(value, load(d, terms + r * args_.ld_add + j, left)); });
    }
  }

  void activate(const TilePlace& at) {
    if (args_.activation == Activation::None && !args_.derivative) return;
    alignas(64) T slopes[kTileRows * kWidth];
    if constexpr (std::is_same_v<T, double>) {
      activate_exactly(at, slopes);
    } else {
      const D d;
      switch (args_.activation) {
        case Activation::None:
          std::fill(slopes, slopes + kTileRows * kWidth, T(1));
          break;
        case Activation::Gelu:
          bend(at, slopes, [d](V x) HWY_ATTR { return gelu(d, x); });
          break;
        case Activation::GeluTanh:
          bend(at, slopes, [d](V x) HWY_ATTR { return gelu_tanh(d, x); });
          break;
        case Activation::Silu:
          bend(at, slopes, [d](V x) HWY_ATTR { return silu(d, x); });
          break;
        case Activation::Relu:
          bend(at, slopes, [d](V x) HWY_ATTR { return relu(d, x); });
          break;
      }
    }
    if (args_.derivative)
      write(at, slopes, static_cast<C*>(args_.derivative) + offset(at, args_.ldc), args_.ldc);
  }

  template <class F>
  HWY_INLINE void bend(const TilePlace& at, T* slopes, const F& curve) {
    const D d;
    each(at, [&](V value, int64_t r, int64_t j, int64_t) HWY_ATTR {
      const Curve<V> y = curve(value);
      hn::Store(y.slope, d, slopes + r * kWidth + j);
      return y.value;
    });
  }

  // Gradient checks run in double and want the library's functions.
  void activate_exactly(const TilePlace& at, double* slopes) {
    double ones[kWidth];
    std::fill(ones, ones + kWidth, 1.0);
    for (int64_t r = 0; r < at.rows; ++r) {
      double* row = tile_ + r * kWidth;
      activation_backward_row(args_.activation, ones, row, slopes + r * kWidth, at.columns);
      activation_row(args_.activation, row, row, at.columns);
    }
  }

  const GemmArgs& args_;
  T* tile_;
};

}  // namespace tessera::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
