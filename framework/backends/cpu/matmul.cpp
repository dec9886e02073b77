// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "framework/backends/cpu/cpu_backend_impl.h"
#include "framework/backends/cpu/element.h"
#include "framework/backends/cpu/parallel.h"
#include "framework/backends/cpu/row_kernels.h"

namespace tessera::cpu {
namespace {

// op(b) as [k, n] in the type of the arithmetic.
template <class T>
std::vector<Real<T>> wide_operand(const Tensor& x, bool transpose) {
  const auto view = matrix_view<T>(x);
  std::vector<Real<T>> wide(static_cast<size_t>(view.rows * view.columns));
  for (int64_t i = 0; i < view.rows; ++i)
    for (int64_t j = 0; j < view.columns; ++j)
      wide[static_cast<size_t>(transpose ? j * view.rows + i : i * view.columns + j)] =
          static_cast<Real<T>>(view.row(i)[j]);
  return wide;
}

}  // namespace

void CpuBackend::matmul(const MatmulArgs& args) {
  visit_float(args.a.dtype(), [&]<class T>() {
    visit_float(args.c.dtype(), [&]<class C>() {
      using R = Real<T>;
      const std::vector<R> a = wide_operand<T>(args.a, args.transpose_a);
      const std::vector<R> b = wide_operand<T>(args.b, args.transpose_b);
      const auto c = matrix_view<C>(args.c);
      const int64_t k = args.a.size(args.transpose_a ? 0 : 1), n = c.columns;
      parallel_for(threads(), c.rows, 1, [&](int64_t begin, int64_t end) {
        std::vector<R> sums(static_cast<size_t>(n)), slopes(sums), ones(sums.size(), R(1));
        for (int64_t i = begin; i < end; ++i) {
          std::fill(sums.begin(), sums.end(), R(0));
          for (int64_t p = 0; p < k; ++p)
            for (int64_t j = 0; j < n; ++j)
              sums[static_cast<size_t>(j)] +=
                  a[static_cast<size_t>(i * k + p)] * b[static_cast<size_t>(p * n + j)];
          for (int64_t j = 0; j < n; ++j) {
            R& value = sums[static_cast<size_t>(j)];
            value *= static_cast<R>(args.alpha);
            if (args.beta != 0)
              value += static_cast<R>(args.beta) * static_cast<R>(static_cast<Real<C>>(c.row(i)[j]));
            if (args.bias.defined()) value += static_cast<R>(args.bias.data<T>()[j]);
          }
          if (args.derivative.defined()) {
            activation_backward_row(args.activation, ones.data(), sums.data(), slopes.data(), n);
            for (int64_t j = 0; j < n; ++j)
              matrix_view<C>(args.derivative).row(i)[j] =
                  C(static_cast<Real<C>>(slopes[static_cast<size_t>(j)]));
          }
          if (args.activation != Activation::None)
            activation_row(args.activation, sums.data(), sums.data(), n);
          for (int64_t j = 0; j < n; ++j) {
            R value = sums[static_cast<size_t>(j)];
            if (args.multiply.defined()) value *= static_cast<R>(matrix_view<T>(args.multiply).row(i)[j]);
            c.row(i)[j] = C(static_cast<Real<C>>(value));
          }
        }
      });
    });
  });
}

}  // namespace tessera::cpu
