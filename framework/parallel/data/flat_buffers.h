// SPDX-License-Identifier: Apache-2.0
// Parameters, masters and gradients of a rank in a few flat buffers. A bucket holds the parameters of
// consecutive units and is the piece that is reduced, gathered and stepped at once; buckets stand in the
// order in which backward finishes them. Every element of a bucket belongs to exactly one parameter.
#pragma once
#include <span>
#include <vector>

#include "framework/nn/parameter.h"
#include "framework/ops/backend.h"

namespace tessera {

struct Bucket {
  int first_unit = 0;  // its gradients are final after this unit's backward
  int64_t elements = 0;
  Tensor values;     // [elements] compute type
  Tensor masters;    // [elements] fp32 (F64 beside F64); the values themselves when the types are equal
  Tensor gradients;  // [elements] accumulator type
};

struct FlatBufferOptions {
  DType compute = DType::F32;
  DType gradient = DType::F32;
  int64_t bucket_bytes = 25 << 20;  // of gradients; a unit is never cut
  bool gradients = true;            // false: values only, for evaluation and generation
};

class FlatBuffers {
 public:
  // Allocates the buckets and binds the tensors of the store's parameters. The values are uninitialised.
  FlatBuffers(ParameterStore& store, Backend& backend, const FlatBufferOptions& options);

  std::span<Bucket> buckets() { return buckets_; }
  // One entry a trainable parameter, in the store's order.
  std::span<const ParameterShard> shards() const { return shards_; }

  void clear_gradients();
  // values = masters rounded to the compute type.
  void refresh_values();

 private:
  void bind(ParameterStore& store, const std::vector<size_t>& bucket_of);

  Backend& backend_;
  std::vector<Bucket> buckets_;
  std::vector<ParameterShard> shards_;
};

// Sets every master and value to its declared start: element i is a function of (seed, name, i) with i the
// index in the logical tensor, so every mesh starts from the same bits.
void initialise(ParameterStore& store, FlatBuffers& buffers, Backend& backend, uint64_t seed);

}  // namespace tessera
