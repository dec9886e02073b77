// SPDX-License-Identifier: Apache-2.0
// Parameters, masters and gradients of a rank in a few flat buffers. A bucket holds the parameters of
// consecutive units and is the piece that is reduced, gathered and stepped at once; buckets stand in the
// order in which backward finishes them. Every element of a bucket belongs to exactly one parameter, but for
// padding at its end. Under ZeRO (Rajbhandari et al. 2020) a rank keeps its shard of what the stage cuts, an
// equal range of each bucket.
#pragma once
#include <span>
#include <vector>

#include "framework/mesh/shard_spec.h"
#include "framework/nn/parameter.h"
#include "framework/ops/backend.h"

namespace tessera {

// What the ranks that share a gradient divide among them; each stage divides that of the stage before too.
enum class ZeroStage : uint8_t { Off, Optimizer, Gradients, Parameters };

struct Bucket {
  int stage = 0;         // of a pipeline: all of its units are there
  int first_unit = 0;    // in the model; its gradients are final after this unit's backward
  bool tied = false;     // of one tensor that units of two stages use: first_unit and stage are the first's
  int64_t used = 0;      // elements of its parameters
  int64_t elements = 0;  // and padding behind them, so that shards are equal
  Range shard;           // this rank's elements: all of them without ZeRO
  // Of all elements. Undefined while they are not here: values under stage Parameters, gradients where each
  // reduction takes them away.
  Tensor values;     // compute type
  Tensor gradients;  // accumulator type
  // Of the shard: views of the above, or storage of their own.
  Tensor value_shard;
  Tensor masters;  // fp32 (F64 beside F64); value_shard itself when the types are equal
  Tensor gradient_shard;
};

// Where a parameter's local box lies.
struct BucketPlace {
  int bucket;
  int64_t begin;  // in the bucket's elements
};

// Whether a parameter has a gradient and is stepped.
bool is_trained(const ParameterSpec& spec);

struct FlatBufferOptions {
  DType compute = DType::F32;
  DType gradient = DType::F32;
  int64_t bucket_bytes = 25 << 20;  // of gradients; a unit is never cut
  bool gradients = true;            // false: values only, for evaluation and generation
  ZeroStage stage = ZeroStage::Off;
  int shards = 1, shard = 0;  // ranks that the state is divided among, and which of them this is
  // Each reduction takes the whole gradients away, so that only shards last (stages 2 and 3); otherwise they
  // stay for the step.
  bool gradients_leave = false;
  std::vector<int> stage_of_unit = {};  // of the model's units; none: one stage
};

class FlatBuffers {
 public:
  // Allocates the buckets and binds the tensors of the store's parameters. The values are uninitialised.
  FlatBuffers(ParameterStore& store, Backend& backend, const FlatBufferOptions& options);

  std::span<Bucket> buckets() { return buckets_; }
  // Flat ranges of this rank's shards, in the store's order: of every parameter (frozen ones have no
  // gradient), and of those that are trained.
  std::span<const ParameterShard> ranges() const { return ranges_; }
  std::span<const ParameterShard> shards() const { return shards_; }
  BucketPlace place_of(size_t parameter) const { return places_.at(parameter); }
  const FlatBufferOptions& options() const { return options_; }
  bool gradients_leave() const { return options_.gradients_leave; }

  // Before the first backward of a step.
  void clear_gradients();
  // Gives the bucket whole gradients, zero at first, where they are not here.
  void hold_gradients(int bucket);
  // Takes them away again and returns them.
  Tensor take_gradients(int bucket);
  // Gives the bucket the values in `whole` [elements], or takes them away (an undefined `whole`).
  void set_values(int bucket, const Tensor& whole);
  // value_shard = masters rounded to the compute type.
  void refresh_values();
  // Buckets with parameters that a unit computes with.
  const std::vector<int>& buckets_of_unit(int unit) const { return of_unit_.at(static_cast<size_t>(unit)); }

 private:
  void lay_out();
  std::vector<int> assign_units();
  bool crosses_stages(const ParameterSpec& spec) const;
  void allocate(Bucket& bucket);
  void add_range(const Parameter& parameter, int bucket, int64_t begin);
  void bind(int bucket);

  ParameterStore& store_;
  Backend& backend_;
  FlatBufferOptions options_;
  std::vector<Bucket> buckets_;
  std::vector<BucketPlace> places_;                 // of each parameter
  std::vector<std::vector<size_t>> parameters_of_;  // each bucket's
  std::vector<ParameterShard> ranges_, shards_;
  std::vector<int> stage_of_unit_;
  std::vector<std::vector<int>> of_unit_;
};

// Sets this rank's shard of every master and value to its declared start: element i is a function of (seed,
// name, i) with i the index in the logical tensor, so every mesh starts from the same bits. Whole values
// under stages Optimizer and Gradients still have to be gathered.
void initialise(FlatBuffers& buffers, Backend& backend, uint64_t seed);

}  // namespace tessera
