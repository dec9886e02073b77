// SPDX-License-Identifier: Apache-2.0
#include "framework/backends/cpu/matmul.h"

#include "framework/backends/cpu/cpu_backend_impl.h"

namespace tessera::cpu {
namespace {

// Derivative and multiply share the layout of c.
void* beside_result(const Tensor& x, const Tensor& c) {
  if (!x.defined()) return nullptr;
  CHECK(x.row_stride() == c.row_stride() || c.size(0) <= 1,
        "matmul: {} with rows {} apart beside a result {} apart", x.describe(), x.row_stride(),
        c.row_stride());
  return x.address();
}

}  // namespace

GemmArgs gemm_args(const MatmulArgs& args, int threads) {
  return {.m = args.c.size(0),
          .n = args.c.size(1),
          .k = args.a.size(args.transpose_a ? 0 : 1),
          .a = args.a.address(),
          .lda = args.a.row_stride(),
          .transpose_a = args.transpose_a,
          .b = args.b.address(),
          .ldb = args.b.row_stride(),
          .transpose_b = args.transpose_b,
          .type = args.a.dtype(),
          .c = args.c.address(),
          .ldc = args.c.row_stride(),
          .c_type = args.c.dtype(),
          .alpha = args.alpha,
          .beta = args.beta,
          .bias = args.bias.defined() ? args.bias.address() : nullptr,
          .activation = args.activation,
          .derivative = beside_result(args.derivative, args.c),
          .multiply = beside_result(args.multiply, args.c),
          .threads = threads};
}

void CpuBackend::matmul(const MatmulArgs& args) {
  GemmArgs gemm_arguments = gemm_args(args, threads());
  gemm_arguments.workspace = scratch_.reserve(gemm_workspace_bytes(gemm_arguments));
  gemm(gemm_arguments);
}

}  // namespace tessera::cpu
