// SPDX-License-Identifier: Apache-2.0
// Names of other formats. A table of rules turns a name of ours into the tensor of a published checkpoint
// that holds it; N in a rule stands for the number of a block.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace tessera {

// Where a logical tensor lies in a checkpoint of another format.
struct ForeignTensor {
  std::string name;
  bool transposed = false;      // stored as [in, out]
  int64_t part = 0, parts = 1;  // one of several tensors side by side along the output dimension
  bool operator==(const ForeignTensor&) const = default;
};

struct NameRule {
  std::string_view ours, theirs;  // "blocks.N.mlp.up", "h.N.mlp.c_fc", without ".weight" and ".bias"
  bool transposed = false;        // of the weight; a bias never is
  int64_t part = 0, parts = 1;
};

// Nothing when no rule fits.
std::optional<ForeignTensor> foreign_tensor(std::span<const NameRule> rules, std::string_view ours);

}  // namespace tessera
