// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "framework/backends/cpu/cpu_backend_impl.h"
#include "framework/backends/cpu/dropout_threshold.h"
#include "framework/backends/cpu/pieces.h"
#include "framework/backends/cpu/row_kernels.h"

namespace tessera::cpu {
namespace {

template <class T>
void fill_with(int threads, const Tensor& x, T value) {
  for_pieces(threads, {&x}, [&](int64_t row, int64_t column, int64_t count) {
    std::fill_n(piece<T>(x, row, column), count, value);
  });
}

}  // namespace

void CpuBackend::fill(const Tensor& x, double value) {
  switch (x.dtype()) {
    case DType::I64:
      return fill_with(threads(), x, static_cast<int64_t>(value));
    case DType::I32:
      return fill_with(threads(), x, static_cast<int32_t>(value));
    case DType::U8:
      return fill_with(threads(), x, static_cast<uint8_t>(value));
    default:
      return visit_float(x.dtype(),
                         [&]<class T>() { fill_with(threads(), x, T(static_cast<Real<T>>(value))); });
  }
}

void CpuBackend::add(const Tensor& a, const Tensor& b, const Tensor& y) {
  visit_float(y.dtype(), [&]<class T>() {
    for_pieces(threads(), {&y, &a, &b}, [&](int64_t row, int64_t column, int64_t count) {
      std::array<Real<T>, kPiece> a_buffer, b_buffer, y_buffer;
      const Real<T>* left = read<T>(piece<T>(a, row, column), a_buffer.data(), count);
      const Real<T>* right = read<T>(piece<T>(b, row, column), b_buffer.data(), count);
      Real<T>* out = target<T>(piece<T>(y, row, column), y_buffer.data());
      add_row(left, right, out, count);
      written<T>(out, piece<T>(y, row, column), count);
    });
  });
}

void CpuBackend::scale(const Tensor& x, double factor) {
  visit_float(x.dtype(), [&]<class T>() {
    for_pieces(threads(), {&x}, [&](int64_t row, int64_t column, int64_t count) {
      std::array<Real<T>, kPiece> buffer;
      const Real<T>* in = read<T>(piece<T>(x, row, column), buffer.data(), count);
      Real<T>* out = target<T>(piece<T>(x, row, column), buffer.data());
      scale_row(in, static_cast<Real<T>>(factor), out, count);
      written<T>(out, piece<T>(x, row, column), count);
    });
  });
}

void CpuBackend::dropout(const DropoutArgs& args) {
  visit_float(args.x.dtype(), [&]<class T>() {
    using R = Real<T>;
    const auto x = matrix_view<T>(args.x), y = matrix_view<T>(args.y);
    const int64_t* row_index = args.row_index.data<int64_t>();
    const RandomKey key = mixed(args.key, static_cast<uint64_t>(*args.step.data<int64_t>()));
    const uint64_t threshold = keep_threshold(args.probability);
    const R factor = static_cast<R>(1 / (1 - args.probability));
    parallel_for(threads(), x.rows, row_grain(16 * x.columns), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const T* in = x.row(i);
        const T* residual = args.residual.defined() ? matrix_view<T>(args.residual).row(i) : nullptr;
        T* out = y.row(i);
        std::array<uint32_t, 4> bits{};
        for (int64_t c = 0; c < x.columns; ++c) {
          const uint64_t column = static_cast<uint64_t>(args.column_offset + c);
          if (c == 0 || column % 4 == 0) bits = philox(key, static_cast<uint64_t>(row_index[i]), column / 4);
          const bool keep = bits[column % 4] < threshold;
          const R value = keep ? static_cast<R>(in[c]) * factor : R(0);
          out[c] = T(residual ? static_cast<R>(residual[c]) + value : value);
        }
      }
    });
  });
}

void CpuBackend::init_normal(const InitNormalArgs& args) {
  visit_real(args.value, [&]<class R>() {
    const auto value = matrix_view<R>(args.value);
    parallel_for(threads(), value.rows, row_grain(16 * value.columns), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        std::array<uint32_t, 4> bits{};
        for (int64_t c = 0; c < value.columns; ++c) {
          const uint64_t index = static_cast<uint64_t>(args.first_index + r * args.row_pitch + c);
          if (c == 0 || index % 4 == 0) bits = philox(args.key, index / 4);
          value.row(r)[c] = static_cast<R>(normal_from_bits(bits[index % 4])) * static_cast<R>(args.std);
        }
      }
    });
  });
}

}  // namespace tessera::cpu
