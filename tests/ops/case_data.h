// SPDX-License-Identifier: Apache-2.0
// The data of a case: random inputs seeded by its name, tensors with guard bytes around them and between
// their rows, and the tolerance of results.
#pragma once
#include <optional>

#include "tests/ops/case_list.h"
#include "tests/ops/reference.h"

namespace tessera::test {

// Inputs as the storage type holds them, in double, also those that the reference derives. Outputs are 0.
HostTensors make_host_tensors(const OpCase& op_case, DType compute);

// One tensor inside guarded memory. Guards, gaps between rows, and elements before they are written hold
// 0xFF bytes: NaN in every float type, so that reading them shows, too.
class GuardedTensor {
 public:
  GuardedTensor(const TensorSpec& spec, DType compute);
  const Tensor& tensor() const { return tensor_; }
  void write(const std::vector<double>& values);
  std::vector<double> read() const;
  std::vector<std::byte> bytes() const;  // of the elements, without gaps
  bool guards_intact() const;

 private:
  std::byte* row(int64_t i) const;

  std::vector<std::byte> memory_;
  Tensor tensor_;
  int64_t row_bytes_ = 0;
};

// All tensors of a case. Aliases share one.
class CaseTensors {
 public:
  CaseTensors(const OpCase& op_case, DType compute, const HostTensors& values);
  CaseTensors(const CaseTensors&) = delete;
  Tensors tensors() const;
  GuardedTensor& operator[](const std::string& name);
  // The name of the first tensor whose surroundings changed.
  std::optional<std::string> damaged() const;

 private:
  std::map<std::string, std::string> names_;
  std::map<std::string, std::unique_ptr<GuardedTensor>> memory_;
};

// Largest error of a result relative to its own size and that of the tensor, for results of sums of
// `sum_length` terms stored as `result`, computed from and in the types that belong to `compute`.
double tolerance(DType compute, DType result, int64_t sum_length);

// Empty when `got` agrees with `wanted`: first NaN and infinity, which must sit at the same places, then the
// normalised root mean square error, then single elements. Else the index, both values and the bound.
std::string difference(const std::vector<double>& got, const std::vector<double>& wanted, double bound);

}  // namespace tessera::test
