// SPDX-License-Identifier: Apache-2.0
// Every collective on odd sizes and all types, checked against sums computed here on the host. One list for
// all transports; the bytes that a rank ends with are returned, so that transports can be compared.
#pragma once
#include <string>

#include "framework/comm/communicator.h"
#include "framework/ops/backend.h"

namespace tessera::test {

// The values of a test tensor: they differ by rank and place, and their sums depend on the order of adding.
std::vector<double> test_values(DType dtype, int64_t count, int rank);
// As the dtype holds them.
std::string encoded(DType dtype, std::span<const double> values);

Tensor from_bytes(Backend& backend, DType dtype, Shape shape, std::string_view bytes);
std::string to_bytes(Backend& backend, const Tensor& tensor);

// Runs all cases (collective: every rank calls it). Failures are reported through GoogleTest.
std::string run_collective_cases(Communicator& group, Backend& backend);
// All-reduces with each algorithm: the bits of all ranks and of two runs are equal, sums are as near to those
// in double precision as docs/communication.md says, and the bytes are those of its table.
std::string run_all_reduce_cases(Communicator& group, Backend& backend);

}  // namespace tessera::test
