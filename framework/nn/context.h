// SPDX-License-Identifier: Apache-2.0
// What a module may see besides its input: the micro-batch, the step, the mode. Host copies of small facts
// (document starts, counts) sit beside the device tensors, because code above the backends never reads
// tensor memory.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "framework/base/quantity.h"
#include "framework/mesh/sequence_cut.h"
#include "framework/mesh/shard_spec.h"
#include "framework/ops/backend.h"

namespace tessera {

// Pairs (query, key) of one head that a mask lets through between queries, `queries` of each row from
// position first_query on, and the keys at positions [keys.begin, keys.end). document_start as in
// AttentionMask.
int64_t visible_pairs(std::span<const int32_t> document_start, int64_t queries, int64_t first_query,
                      const Range& keys, int64_t window);

// One micro-batch of `rows` sequences of `length` positions, flattened to n = rows * length.
//
// On a rank of a sequence axis it holds the rank's part of each row, in the order of mesh/sequence_cut.h:
// `length` is cut.local_length(), and every [n] tensor is of the local positions. Their places in the row
// (document_start, token_index) stay those of the whole row. Padding behind a row's end has weight 0, no
// target and position 0, sees nothing and is seen by nobody.
struct Batch {
  int64_t rows = 0, length = 0;
  Tensor tokens;          // I32 [n]
  Tensor targets;         // I32 [n]; -1 where there is none
  Tensor weights;         // F32 [n]; 0 where the position is not trained
  Tensor positions;       // I32 [n]: restart at each document under a document mask
  Tensor document_start;  // I32 [n]: first position of the row that position i may attend to
  Tensor row_ids;         // I64 [rows]: the row's number in the global batch
  // Of the rows of hidden states that this rank holds: all n, or a part of them under sequence parallelism.
  Tensor hidden_positions;  // I32 [hidden rows]: positions, for learned ones
  Tensor token_index;       // I64 [hidden rows]: row id * length + position in the row; keys dropout
  Tensor sources = {};      // I32 [n]: number of the source of each position; undefined: all have one
  double weight_sum = 0;    // of this micro-batch
  Tokens trained{0};        // positions with weight > 0
  std::vector<int32_t> host_document_start;  // [n], for counting

  SequenceCut cut = {};  // whole rows unless cut.ranks > 1; then these two say what the whole rows see:
  Tensor row_document_start = {};                // I32 [rows * cut.padded_length()], by row and position
  std::vector<int32_t> host_row_document_start;  // the same

  // Pairs (query, key) of one head that the document mask with this window (0: none) lets through, over all
  // rows, of the queries here with all keys of their rows. first_position is that of each row's first query:
  // not 0 when a cache holds earlier ones.
  int64_t visible_pairs(int64_t window, int64_t first_position = 0) const;
};

// Facts of one optimizer step, most of them in device memory so that a captured step stays valid.
struct StepInfo {
  Steps step{0};       // counted from 1
  Tensor step_number;  // I64 [1]
  Tensor loss_scale;   // F64 [1]: loss scale / weight sum of the global batch; scales the loss gradient
};

// Receives named values that modules observe (auxiliary losses, router load). Silent while recomputing.
class MetricSink {
 public:
  virtual ~MetricSink() = default;
  virtual void add(std::string_view name, double value) = 0;
};

enum class Mode : uint8_t { Train, Eval, Decode };

// Keys and values of earlier positions for generation: one row, a pair of tensors a block.
struct KeyValueCache {
  struct Entry {
    Tensor k, v;  // [capacity, kv_heads * head_dim]
  };
  std::vector<Entry> blocks;
  int64_t length = 0;  // positions filled before this call
};

struct Context {
  Backend& backend;
  const Batch& batch;
  const StepInfo& step;
  MetricSink& metrics;
  Mode mode = Mode::Train;
  bool recomputing = false;
  KeyValueCache* cache = nullptr;  // Decode only
  Tensor loss_total = {};          // F64 [1], the weighted sum of losses, to which the head adds; or
                                   // [1 + sources], with that of each source behind it

  // Dropout acts and a backward follows; otherwise forward keeps nothing.
  bool training() const { return mode == Mode::Train; }
};

}  // namespace tessera
