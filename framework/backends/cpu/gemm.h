// SPDX-License-Identifier: Apache-2.0
// Dense matrix product on the CPU with fused epilogues, on raw row-major memory.
//
// Rule: the bits of an output element depend on its row of op(a), its column of op(b) and the epilogue
// operands only. How rows and columns are split over calls or threads, the instruction set, and whether
// one row or many are computed, change time and never bits: the sum over k is cut into blocks of fixed
// length, each block is one chain of fused multiply-adds, and blocks are added in order.
#pragma once
#include <cstdint>

#include "framework/ops/backend.h"
#include "framework/tensor/dtype.h"

namespace tessera::cpu {

// c[m, n] = activation(alpha * op(a)[m, k] op(b)[k, n] + beta * c + bias) * multiply + add
//
// F32, BF16 and F16 are computed in fp32 and rounded once, when c is stored; F64 in double. beta = 0 never
// reads c. m, n or k may be 0; with k = 0 the product is zero and the epilogue still runs.
struct GemmArgs {
  int64_t m = 0, n = 0, k = 0;
  const void* a = nullptr;  // [m, k], or [k, m] when transpose_a
  int64_t lda = 0;          // elements from row to row in memory; likewise the other ld
  bool transpose_a = false;
  const void* b = nullptr;  // [k, n], or [n, k] when transpose_b
  int64_t ldb = 0;
  bool transpose_b = false;
  DType type = DType::F32;  // of a, b, bias, multiply and add
  void* c = nullptr;        // [m, n]; may not overlap the inputs; to add to c use beta
  int64_t ldc = 0;
  DType c_type = DType::F32;  // equal to type, or F32 over BF16 and F16 inputs
  float alpha = 1, beta = 0;
  const void* bias = nullptr;  // [n]
  Activation activation = Activation::None;
  void* derivative = nullptr;      // [m, n], layout and type of c: receives activation'(pre-activation)
  const void* multiply = nullptr;  // [m, n], ldc layout: a stored derivative in activation backward
  const void* add = nullptr;       // [m, n]: a residual
  int64_t ld_add = 0;
  int threads = 1;
  void* workspace = nullptr;  // 64-byte aligned, gemm_workspace_bytes(args) long
};

// Depends on sizes, types, transposes and threads only, never on pointers or on the machine: a planner
// without data gets the same number. Per thread at most 1.3 MB, and 3 MB more where sums over a long k do not
// fit a 16-bit c.
int64_t gemm_workspace_bytes(const GemmArgs& args);

void gemm(const GemmArgs& args);

}  // namespace tessera::cpu
