// SPDX-License-Identifier: Apache-2.0
#include "framework/backends/cpu/cpu_backend_impl.h"
#include "framework/backends/cpu/element.h"
#include "framework/backends/cpu/parallel.h"
#include "framework/backends/cpu/row_blocks.h"
#include "framework/backends/cpu/row_kernels.h"

namespace tessera::cpu {
namespace {

// A vector of the storage type as Real<T>, read once a call.
template <class T>
std::vector<Real<T>> wide_vector(const Tensor& x) {
  std::vector<Real<T>> values(x.defined() ? static_cast<size_t>(x.elements()) : 0);
  if (!values.empty()) {
    const Real<T>* wide = read<T>(x.data<T>(), values.data(), x.elements());
    if (wide != values.data()) std::copy_n(wide, values.size(), values.data());
  }
  return values;
}

}  // namespace

void CpuBackend::layer_norm(const LayerNormArgs& args) {
  visit_float(args.x.dtype(), [&]<class T>() {
    using R = Real<T>;
    const auto x = matrix_view<T>(args.x), y = matrix_view<T>(args.y);
    const std::vector<R> gain = wide_vector<T>(args.gain), bias = wide_vector<T>(args.bias);
    R* mean = args.mean.data<R>();
    R* inv_std = args.inv_std.data<R>();
    parallel_for(threads(), x.rows, row_grain(x.columns), [&](int64_t begin, int64_t end) {
      RowBuffers<T> buffers(2, x.columns);
      for (int64_t i = begin; i < end; ++i) {
        R* out = target<T>(y.row(i), buffers[1]);
        layer_norm_row(read<T>(x.row(i), buffers[0], x.columns), gain.data(),
                       bias.empty() ? nullptr : bias.data(), out, x.columns, args.epsilon, mean[i],
                       inv_std[i]);
        written<T>(out, y.row(i), x.columns);
      }
    });
  });
}

void CpuBackend::layer_norm_backward(const LayerNormBackwardArgs& args) {
  visit_float(args.x.dtype(), [&]<class T>() {
    using R = Real<T>;
    const auto x = matrix_view<T>(args.x), dy = matrix_view<T>(args.dy), dx = matrix_view<T>(args.dx);
    const std::vector<R> gain = wide_vector<T>(args.gain);
    const R* mean = args.mean.data<R>();
    const R* inv_std = args.inv_std.data<R>();
    const int64_t width = x.columns;
    const bool with_gain = args.dgain.defined(), with_bias = args.dbias.defined();
    // One row of sums holds those of dgain, then those of dbias.
    const R* sums = sum_row_blocks<R>(
        threads(), scratch_, x.rows, 2 * width, [&](int64_t begin, int64_t end, R* partial) {
          RowBuffers<T> buffers(3, width);
          for (int64_t i = begin; i < end; ++i) {
            R* out = target<T>(dx.row(i), buffers[2]);
            layer_norm_backward_row(read<T>(dy.row(i), buffers[0], width),
                                    read<T>(x.row(i), buffers[1], width), gain.data(), mean[i], inv_std[i],
                                    out, with_gain ? partial : nullptr, with_bias ? partial + width : nullptr,
                                    width);
            written<T>(out, dx.row(i), width);
          }
        });
    if (with_gain) add_terms(sums, args.dgain);
    if (with_bias) add_terms(sums + width, args.dbias);
  });
}

void CpuBackend::rms_norm(const RmsNormArgs& args) {
  visit_float(args.x.dtype(), [&]<class T>() {
    using R = Real<T>;
    const auto x = matrix_view<T>(args.x), y = matrix_view<T>(args.y);
    const std::vector<R> gain = wide_vector<T>(args.gain);
    const int64_t width = args.gain.elements(), groups = x.columns / width;
    R* inv_rms = args.inv_rms.data<R>();
    parallel_for(threads(), x.rows, row_grain(x.columns), [&](int64_t begin, int64_t end) {
      RowBuffers<T> buffers(2, x.columns);
      for (int64_t i = begin; i < end; ++i) {
        const R* in = read<T>(x.row(i), buffers[0], x.columns);
        R* out = target<T>(y.row(i), buffers[1]);
        for (int64_t g = 0; g < groups; ++g)
          rms_norm_row(in + g * width, gain.data(), out + g * width, width, args.epsilon,
                       inv_rms[i * groups + g]);
        written<T>(out, y.row(i), x.columns);
      }
    });
  });
}

void CpuBackend::rms_norm_backward(const RmsNormBackwardArgs& args) {
  visit_float(args.x.dtype(), [&]<class T>() {
    using R = Real<T>;
    const auto x = matrix_view<T>(args.x), dy = matrix_view<T>(args.dy), dx = matrix_view<T>(args.dx);
    const std::vector<R> gain = wide_vector<T>(args.gain);
    const int64_t width = args.gain.elements(), groups = x.columns / width;
    const R* inv_rms = args.inv_rms.data<R>();
    const bool with_gain = args.dgain.defined();
    const R* sums =
        sum_row_blocks<R>(threads(), scratch_, x.rows, width, [&](int64_t begin, int64_t end, R* partial) {
          RowBuffers<T> buffers(3, x.columns);
          for (int64_t i = begin; i < end; ++i) {
            const R* in = read<T>(x.row(i), buffers[0], x.columns);
            const R* gradient = read<T>(dy.row(i), buffers[1], x.columns);
            R* out = target<T>(dx.row(i), buffers[2]);
            for (int64_t g = 0; g < groups; ++g)
              rms_norm_backward_row(gradient + g * width, in + g * width, gain.data(),
                                    inv_rms[i * groups + g], out + g * width, with_gain ? partial : nullptr,
                                    width);
            written<T>(out, dx.row(i), x.columns);
          }
        });
    if (with_gain) add_terms(sums, args.dgain);
  });
}

}  // namespace tessera::cpu
