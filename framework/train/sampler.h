// SPDX-License-Identifier: Apache-2.0
// Draws the next token from logits. A draw is a function of (seed, position), so equal seeds give equal text.
#pragma once
#include <cstdint>
#include <span>

namespace tessera {

struct SamplingOptions {
  double temperature = 1.0;  // 0: the largest logit
  int64_t top_k = 0;         // only the k largest; 0: all
  double top_p = 1.0;        // only the largest that together reach this probability
  int64_t vocabulary = 0;    // only tokens below this, those that the tokenizer knows; 0: all
  uint64_t seed = 1234;
};

// Ties go to the smaller token. Throws Error(Numeric) when a logit is NaN.
int32_t sample(std::span<const float> logits, const SamplingOptions& options, int64_t position);

}  // namespace tessera
