// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <vector>

#include "framework/backends/cpu/cpu_backend_impl.h"
#include "framework/backends/cpu/pieces.h"
#include "framework/backends/cpu/row_blocks.h"
#include "framework/backends/cpu/row_kernels.h"

namespace tessera::cpu {
namespace {

void add_in_order(const std::vector<double>& terms, const Tensor& out) {
  double total = 0;
  for (const double term : terms) total += term;
  *out.data<double>() += total;
}

}  // namespace

void CpuBackend::column_sum(const Tensor& x, const Tensor& out) {
  visit_float(x.dtype(), [&]<class T>() {
    using R = Real<T>;
    const auto view = matrix_view<T>(x);
    const R* sums = sum_row_blocks<R>(threads(), scratch_, view.rows, view.columns,
                                      [&](int64_t begin, int64_t end, R* partial) {
                                        RowBuffers<T> buffers(1, view.columns);
                                        for (int64_t i = begin; i < end; ++i) {
                                          const R* row = read<T>(view.row(i), buffers[0], view.columns);
                                          add_row(partial, row, partial, view.columns);
                                        }
                                      });
    add_terms(sums, out);
  });
}

void CpuBackend::sum(std::span<const Tensor> terms, const Tensor& out) {
  bool packed = out.packed();
  for (const Tensor& term : terms) packed = packed && term.packed();
  CHECK(packed, "sum: terms and result must be packed");
  visit_float(out.dtype(), [&]<class T>() {
    using R = Real<T>;
    for_pieces(threads(), {&out}, [&](int64_t, int64_t column, int64_t count) {
      std::array<R, kPiece> buffer, total;
      std::fill_n(total.data(), count, R(0));
      for (size_t k = 0; k < terms.size(); ++k) {
        const R* term = read<T>(terms[k].template data<T>() + column, buffer.data(), count);
        if (k == 0)
          std::copy_n(term, count, total.data());
        else
          add_row(total.data(), term, total.data(), count);
      }
      if constexpr (kIsWide<T>)
        std::copy_n(total.data(), count, out.data<T>() + column);
      else
        narrow(total.data(), out.data<T>() + column, count);
    });
  });
}

void CpuBackend::sum_squares(const Tensor& x, const Tensor& out) {
  const bool packed = x.packed();
  const int64_t columns = packed ? x.elements() : x.shape().row_elements();
  const int64_t pieces = (columns + kPiece - 1) / kPiece;
  std::vector<double> sums(static_cast<size_t>((packed ? 1 : x.shape().rows()) * pieces));
  visit_float(x.dtype(), [&]<class T>() {
    for_pieces(threads(), {&x}, [&](int64_t row, int64_t column, int64_t count) {
      std::array<Real<T>, kPiece> buffer;
      const Real<T>* values = read<T>(piece<T>(x, row, column), buffer.data(), count);
      sums[static_cast<size_t>(row * pieces + column / kPiece)] = sum_squares_row(values, count);
    });
  });
  add_in_order(sums, out);
}

void CpuBackend::sum_squared_differences(const Tensor& x, const Tensor& y, const Tensor& out) {
  std::vector<double> sums(static_cast<size_t>((x.elements() + kPiece - 1) / kPiece));
  visit_float(x.dtype(), [&]<class T>() {
    using R = Real<T>;
    for_pieces(threads(), {&x, &y}, [&](int64_t, int64_t begin, int64_t count) {
      std::array<R, kPiece> x_buffer, y_buffer, difference;
      const R* xs = read<T>(x.data<T>() + begin, x_buffer.data(), count);
      const R* ys = read<T>(y.data<T>() + begin, y_buffer.data(), count);
      for (int64_t i = 0; i < count; ++i) difference[static_cast<size_t>(i)] = xs[i] - ys[i];
      sums[static_cast<size_t>(begin / kPiece)] = sum_squares_row(difference.data(), count);
    });
  });
  add_in_order(sums, out);
}

}  // namespace tessera::cpu
