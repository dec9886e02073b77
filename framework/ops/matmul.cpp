// SPDX-License-Identifier: Apache-2.0
#include "framework/ops/matmul.h"

#include "framework/ops/memory.h"

namespace tessera {
namespace {

struct Extents {
  int64_t m, n, k;
};

Extents check_product(const Tensor& a, const Tensor& b, const MatmulOptions& options) {
  CHECK(a.shape().rank() == 2 && b.shape().rank() == 2 && a.dtype() == b.dtype(),
        "matmul needs two matrices of one type, got {} and {}", a.describe(), b.describe());
  const int64_t m = a.size(options.transpose_a ? 1 : 0), k = a.size(options.transpose_a ? 0 : 1);
  const int64_t n = b.size(options.transpose_b ? 0 : 1), kb = b.size(options.transpose_b ? 1 : 0);
  CHECK(k == kb, "matmul: inner extents differ: {}{} times {}{}", a.describe(),
        options.transpose_a ? "^T" : "", b.describe(), options.transpose_b ? "^T" : "");
  CHECK(!options.bias.defined() || (options.bias.elements() == n && options.bias.dtype() == a.dtype()),
        "matmul: a bias of {} for {} columns of {}", options.bias.describe(), n, name_of(a.dtype()));
  for (const Tensor& extra : {options.derivative, options.multiply})
    CHECK(!extra.defined() || extra.shape() == (Shape{m, n}), "matmul: {} beside a result of [{}, {}]",
          extra.describe(), m, n);
  return {m, n, k};
}

void run(Backend& backend, const Tensor& a, const Tensor& b, const Tensor& c, float beta, const Extents& size,
         const MatmulOptions& options) {
  backend.flops().add(2 * size.m * size.n * size.k);
  backend.matmul({.a = a,
                  .b = b,
                  .c = c,
                  .transpose_a = options.transpose_a,
                  .transpose_b = options.transpose_b,
                  .beta = beta,
                  .bias = options.bias,
                  .activation = options.activation,
                  .derivative = options.derivative,
                  .multiply = options.multiply});
}

}  // namespace

Tensor matmul(Backend& backend, const Tensor& a, const Tensor& b, const MatmulOptions& options) {
  const Extents size = check_product(a, b, options);
  Tensor c = empty(backend, a.dtype(), {size.m, size.n});
  run(backend, a, b, c, 0, size, options);
  return c;
}

void accumulate_matmul(Backend& backend, const Tensor& a, const Tensor& b, const Tensor& c,
                       const MatmulOptions& options) {
  const Extents size = check_product(a, b, options);
  CHECK(c.shape() == (Shape{size.m, size.n}), "matmul: result {} for a product of [{}, {}]", c.describe(),
        size.m, size.n);
  run(backend, a, b, c, 1, size, options);
}

}  // namespace tessera
