// SPDX-License-Identifier: Apache-2.0
// The one list of operations and the ways to call them. Everything that runs operations one by one reads
// it: comparison with the reference, finite differences, thread counts, guard bytes, timing. A case is data:
// tensors by name, numbers by name. It knows nothing of the test library.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "framework/ops/backend.h"

namespace tessera::test {

enum class ElementKind : uint8_t {
  Compute,  // the type under test
  Wide,     // statistics, masters, accumulators: F64 beside F64, else F32
  F32,
  F64,
  I32,
  I64,
};
enum class Use : uint8_t {
  Input,
  Output,   // overwritten, never read
  InOut,    // read and written
  Forward,  // only the forward of a finite difference knows it
};

struct TensorSpec {
  std::string name;
  Shape shape;
  ElementKind kind = ElementKind::Compute;
  Use use = Use::Input;
  double mean = 0, deviation = 1;   // of normal values
  std::vector<double> values = {};  // these instead of random ones, repeated as needed
  bool derived = false;             // an input that the reference computes from the others
  int64_t row_gap = 0;              // a column slice: elements between rows that belong to someone else
  std::string alias = {};           // the tensor of that name is this one, too
};

struct OpCase {
  std::string op;
  std::map<std::string, double, std::less<>> numbers = {};
  std::vector<TensorSpec> tensors = {};
  int64_t sum_length = 1;  // terms of the longest sum: decides the tolerance
  double operations = 0;   // multiply-adds count two; 0 when memory decides the time
  bool timed = false;      // sizes are those of a benchmark, too large for the other uses

  // Bytes that the inputs and outputs hold: the least that must move.
  double bytes(DType compute) const;
  double number(std::string_view key) const;  // 0 when absent
  int64_t integer(std::string_view key) const { return static_cast<int64_t>(number(key)); }
  const TensorSpec* find(std::string_view tensor) const;  // null when absent
  std::string name() const;                               // op and numbers: unique, and seeds the data
};

// A differentiable operation for finite differences: backward(op) against forward.
struct GradientSpec {
  std::string forward;                                         // op name
  std::string output, output_gradient;                         // of the forward; of the backward
  std::vector<std::pair<std::string, std::string>> gradients;  // input of the forward, result of the backward
};

std::vector<OpCase> op_cases();     // small, odd sizes
std::vector<OpCase> timed_cases();  // sizes of the 14M benchmark model
// Empty forward when the op is no backward.
GradientSpec gradient_spec(const OpCase& op_case);

DType dtype_of_spec(const TensorSpec& spec, DType compute);

using Tensors = std::map<std::string, Tensor, std::less<>>;
// Calls the backend. Tensors that the case lacks are passed as undefined.
void run_case(Backend& backend, const OpCase& op_case, const Tensors& tensors);
// The same for another op on the same tensors: the forward of a backward.
void run_op(Backend& backend, std::string_view op, const OpCase& op_case, const Tensors& tensors);

}  // namespace tessera::test
