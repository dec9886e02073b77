// SPDX-License-Identifier: Apache-2.0
// One attention of rows that are whole on one rank or cut over many, with the same inputs for each position:
// what the ranks of a group compute, and what one rank alone does.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "framework/dataset/sequence_batch.h"
#include "framework/nn/attention_core.h"

namespace tessera::test {

inline constexpr SequenceMode kModes[] = {SequenceMode::Ring, SequenceMode::Ulysses, SequenceMode::Gather};

// Numbers of a step that nobody looks at.
class NoMetrics final : public MetricSink {
  void add(std::string_view, double) override {}
};

struct SequenceCase {
  int64_t rows = 2, length = 13;
  std::vector<int64_t> documents = {};  // lengths, repeated as needed; row r begins r positions into them
  int64_t window = 0;
  double dropout = 0;
  HeadShare share = {.heads = 12, .head_dim = 3, .group = 1};
  DType dtype = DType::F64;
  std::string name() const;
};

AttentionSettings settings_of(const SequenceCase& c);
HostBatch whole_batch(const SequenceCase& c);

// Inputs, or results, of a layer by name: "q", "k", "v", "dy"; "y", "lse", "dq", "dk", "dv". Matrices with a
// row for each token, in the order of the tokens they belong to.
using Matrices = std::map<std::string, std::vector<double>>;
// For whole rows; as `dtype` holds them.
Matrices make_inputs(const SequenceCase& c);
// Those of one rank's tokens; NaN in padding.
Matrices local_inputs(const SequenceCase& c, const SequenceCut& cut, const Matrices& whole);

struct LayerRun {
  Matrices results = {};
  int64_t peak_bytes = 0;  // above what lived before
  int64_t model_flops = 0, hardware_flops = 0;
};
// The tensors of a call as SelfAttention has them: q, k and v are slices of one buffer, as their gradients
// are. Inputs may be empty on a backend without data.
class Layer {
 public:
  Layer(const SequenceCase& c, const SequenceCut& cut, Backend& backend, const Matrices& inputs);
  // `step` undefined: dropout has no step, and fails.
  AttentionResult forward(const AttentionCore& core, bool step_known = true);
  AttentionGradients backward(const AttentionCore& core, const AttentionResult& result,
                              bool step_known = true);
  LayerRun run(const AttentionCore& core);
  const Batch& batch() const { return batch_; }

 private:
  struct Columns {
    Tensor q, k, v;
  };
  Columns columns(const Tensor& buffer) const;
  Context context(bool step_known);

  SequenceCase case_;
  Backend& backend_;
  Batch batch_;
  Tensor qkv_, dy_, dqkv_;
  StepInfo step_, unknown_step_;
};

// One rank alone.
LayerRun run_whole(const SequenceCase& c, const Matrices& inputs);

// The largest difference of a rank's part from the whole, relative to the largest element of the whole; and
// whether padding is 0 wherever it must be. "" when all is within the bounds.
std::string part_differs(const SequenceCase& c, const SequenceCut& cut, const Matrices& part,
                         const Matrices& whole, double bound);

}  // namespace tessera::test
