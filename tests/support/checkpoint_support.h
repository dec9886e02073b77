// SPDX-License-Identifier: Apache-2.0
// Tensors whose every element is a function of its logical index, so that a misplaced one shows, cut over
// ranks in several ways; and a folder that is removed after the test.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "framework/checkpoint/tensor_map.h"
#include "framework/ops/backend.h"
#include "tests/support/scratch_folder.h"

namespace tessera::test {

// How a tensor lies on n ranks.
enum class Cut {
  Replicated,  // whole everywhere; the ranks share the writing
  Rows,        // the outermost dim, uneven where it does not divide
  Columns,     // the last dim
  Flat,        // equal flat ranges, as ZeRO cuts
};

struct TestTensor {
  std::string name;
  DType dtype;
  Shape shape;
};

// Odd sizes in one to four dims, a scalar, an empty one, every element type; with_large: one tensor above a
// block of bytes.
std::vector<TestTensor> test_tensors(bool with_large = false);

// What element `index` of the tensor holds, as bytes; `version` tells saves apart.
std::vector<std::byte> expected_bytes(const TestTensor& tensor, int64_t begin, int64_t end, int version);

// This rank's part. With `version` the pieces hold the expected values; without it 0xA5 bytes.
TensorMap tensor_map(const std::vector<TestTensor>& tensors, Cut cut, int ranks, int rank, Backend& backend,
                     std::optional<int> version, bool for_saving);

// Adds a test failure for each piece that does not hold the expected bytes.
void expect_values(const std::vector<TestTensor>& tensors, const TensorMap& map, Backend& backend,
                   int version);

}  // namespace tessera::test
