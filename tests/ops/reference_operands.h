// SPDX-License-Identifier: Apache-2.0
// How the reference sees the tensors and numbers of a case.
#pragma once
#include <limits>

#include "tests/ops/reference.h"

namespace tessera::test {

using Vector = std::vector<double>;
inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

// A host tensor seen as a matrix.
struct Matrix {
  Vector& data;
  int64_t columns;
  double& operator()(int64_t i, int64_t j) { return data[static_cast<size_t>(i * columns + j)]; }
};

struct Operands {
  const OpCase& c;
  HostTensors& t;
  Vector& operator[](const char* name) const { return t[name]; }
  Matrix matrix(const char* name) const {
    const TensorSpec* spec = c.find(name);
    return {t[name], spec ? spec->shape.row_elements() : 0};
  }
  bool has(const char* name) const { return c.find(name) != nullptr; }
  int64_t integer(const char* key) const { return c.integer(key); }
  double number(const char* key) const { return c.number(key); }
};

// `add`: onto what y and lse, or dq, dk and dv, hold.
void reference_attention(const Operands& o, bool add);
void reference_attention_backward(const Operands& o, bool add);

}  // namespace tessera::test
