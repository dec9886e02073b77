// SPDX-License-Identifier: Apache-2.0
// A Batch from plain vectors, written out the simple way: positions and masks restart at each document, and
// the last token of a document has no target.
#pragma once
#include <vector>

#include "framework/nn/context.h"

namespace tessera::test {

struct BatchSpec {
  std::vector<std::vector<int32_t>> rows;         // token ids; equal lengths
  std::vector<std::vector<int64_t>> documents{};  // lengths of each row's documents; none: one a row
  std::vector<float> weights{};                   // of the positions of all rows; none: 1 where a target is
  std::vector<int64_t> row_ids{};                 // none: 0, 1, ...
};
Batch make_batch(Backend& backend, const BatchSpec& spec);

// Reproducible ids in [0, vocab).
std::vector<int32_t> some_tokens(int64_t count, int64_t vocab, uint64_t seed);

// Tokens of one row that generation adds after `before` earlier ones: positions go on, all of it is visible.
Batch make_decode_batch(Backend& backend, const std::vector<int32_t>& tokens, int64_t before);

}  // namespace tessera::test
