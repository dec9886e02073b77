// SPDX-License-Identifier: Apache-2.0
// Gradients against central differences of fourth order, in F64, element by element.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "framework/ops/backend.h"

namespace tessera::test {

// Reproducible values of about unit size.
std::vector<double> some_values(int64_t count, uint64_t seed);
Tensor some_tensor(Backend& backend, Shape shape, uint64_t seed);  // F64

// Expects gradient[i] to be d objective / d variable[i] for every stride-th i. `objective` runs a forward
// that reads `variable`, a packed F64 tensor; it is left as it was.
void expect_gradient(Backend& backend, const std::string& name, const Tensor& variable,
                     const std::vector<double>& gradient, const std::function<double()>& objective,
                     size_t stride = 1);

// Expects the same bits, apart from the sign of zero, and no NaN.
void expect_same_bits(const std::vector<double>& a, const std::vector<double>& b, const std::string& name);

}  // namespace tessera::test
