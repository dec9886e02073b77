// SPDX-License-Identifier: Apache-2.0
#include "framework/backends/cpu/cpu_backend_impl.h"
#include "framework/backends/cpu/element.h"
#include "framework/backends/cpu/parallel.h"
#include "framework/backends/cpu/row_kernels.h"

namespace tessera::cpu {

void CpuBackend::activation(const ActivationArgs& args) {
  visit_float(args.x.dtype(), [&]<class T>() {
    const auto x = matrix_view<T>(args.x), y = matrix_view<T>(args.y);
    parallel_for(threads(), x.rows, row_grain(x.columns), [&](int64_t begin, int64_t end) {
      RowBuffers<T> buffers(2, x.columns);
      for (int64_t i = begin; i < end; ++i) {
        Real<T>* out = target<T>(y.row(i), buffers[1]);
        activation_row(args.kind, read<T>(x.row(i), buffers[0], x.columns), out, x.columns);
        written<T>(out, y.row(i), x.columns);
      }
    });
  });
}

void CpuBackend::activation_backward(const ActivationBackwardArgs& args) {
  visit_float(args.x.dtype(), [&]<class T>() {
    const auto x = matrix_view<T>(args.x), dy = matrix_view<T>(args.dy), dx = matrix_view<T>(args.dx);
    parallel_for(threads(), x.rows, row_grain(x.columns), [&](int64_t begin, int64_t end) {
      RowBuffers<T> buffers(3, x.columns);
      for (int64_t i = begin; i < end; ++i) {
        Real<T>* out = target<T>(dx.row(i), buffers[2]);
        activation_backward_row(args.kind, read<T>(dy.row(i), buffers[0], x.columns),
                                read<T>(x.row(i), buffers[1], x.columns), out, x.columns);
        written<T>(out, dx.row(i), x.columns);
      }
    });
  });
}

void CpuBackend::gated_activation(const GatedActivationArgs& args) {
  visit_float(args.y.dtype(), [&]<class T>() {
    const auto x = matrix_view<T>(args.gate_up), y = matrix_view<T>(args.y);
    const int64_t width = y.columns;
    parallel_for(threads(), x.rows, row_grain(x.columns), [&](int64_t begin, int64_t end) {
      RowBuffers<T> buffers(2, x.columns);
      for (int64_t i = begin; i < end; ++i) {
        const Real<T>* in = read<T>(x.row(i), buffers[0], x.columns);
        Real<T>* out = target<T>(y.row(i), buffers[1]);
        gated_row(args.kind, in, in + width, out, width);
        written<T>(out, y.row(i), width);
      }
    });
  });
}

void CpuBackend::gated_activation_backward(const GatedActivationBackwardArgs& args) {
  visit_float(args.dy.dtype(), [&]<class T>() {
    const auto x = matrix_view<T>(args.gate_up), dy = matrix_view<T>(args.dy),
               dx = matrix_view<T>(args.dgate_up);
    const int64_t width = dy.columns;
    parallel_for(threads(), x.rows, row_grain(x.columns), [&](int64_t begin, int64_t end) {
      RowBuffers<T> buffers(3, x.columns);
      for (int64_t i = begin; i < end; ++i) {
        const Real<T>* in = read<T>(x.row(i), buffers[0], x.columns);
        Real<T>* out = target<T>(dx.row(i), buffers[2]);
        gated_backward_row(args.kind, read<T>(dy.row(i), buffers[1], width), in, in + width, out, out + width,
                           width);
        written<T>(out, dx.row(i), x.columns);
      }
    });
  });
}

}  // namespace tessera::cpu
