// SPDX-License-Identifier: Apache-2.0
// Rotary position embedding: the table of angles, computed on the host in double. Scalings stretch it over a
// longer context: linear (Chen et al. 2023), llama3 (Llama 3.1) and yarn (Peng et al. 2023), each as Hugging
// Face computes it.
#pragma once
#include <vector>

#include "framework/ops/backend.h"

namespace tessera {

struct RopeOptions {
  enum class Scaling : uint8_t { None, Linear, Llama3, Yarn };

  double theta = 10000;
  int64_t rotary_dim = 0;  // leading columns of a head that rotate; even
  Scaling scaling = Scaling::None;
  double factor = 1;
  int64_t original_positions = 0;        // llama3, yarn: context length before scaling
  double low_frequency_factor = 1;       // llama3
  double high_frequency_factor = 4;      // llama3
  double beta_fast = 32, beta_slow = 1;  // yarn: rotations in the original context
  double attention_factor = 1;           // yarn: scales cosines and sines
  bool operator==(const RopeOptions&) const = default;
};

// Radians per position, rotary_dim / 2 of them.
std::vector<double> rope_frequencies(const RopeOptions& options);

// [positions, rotary_dim]: cosines, then sines, for RopeArgs. F64 beside F64 tensors, else F32.
Tensor rope_table(Backend& backend, const RopeOptions& options, int64_t positions, DType compute);

}  // namespace tessera
