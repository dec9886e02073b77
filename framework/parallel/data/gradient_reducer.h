// SPDX-License-Identifier: Apache-2.0
// Sums gradient buckets over the ranks that hold terms of them. A bucket starts as soon as its gradients are
// final, while backward goes on; finish() waits for all. Without overlap the same calls run at the end, in
// the same order, so the bits do not depend on it.
//
// A bucket passes through: its shared gradients over the tensor ranks; then, without ZeRO, an all-reduce over
// the data ranks; with it, a reduce-scatter over the ranks that shards lie on, added to the shard where each
// micro-batch is reduced; at the end of the step, an all-reduce of shards over their replicas.
#pragma once
#include <deque>
#include <vector>

#include "framework/comm/communicator.h"
#include "framework/parallel/data/flat_buffers.h"
#include "framework/parallel/data/shared_gradients.h"

namespace tessera {

struct GradientReducerOptions {
  bool overlap = true;
  DType wire = DType::F32;  // the type that travels; sums are made in fp32 and rounded to it once
  bool shards = false;      // ZeRO: the sums are wanted on the shards only
};

struct GradientGroups {
  Communicator& data;      // dp and sp
  Communicator& shards;    // of them, those that one copy of sharded state lies on
  Communicator& replicas;  // of them, those that hold the same shard
  Communicator& tensor;
  Communicator& tied;  // the ranks of the pipeline that hold a tied tensor; of one rank where none is here
};

class GradientReducer {
 public:
  GradientReducer(FlatBuffers& buffers, ParameterStore& store, const GradientGroups& groups, Backend& backend,
                  const GradientReducerOptions& options);

  // The whole gradients of a bucket hold terms that nothing will be added to.
  void start(int bucket);
  // Every shard holds its sum.
  void finish();

 private:
  struct Pending {
    int bucket;
    Tensor whole;  // the terms
    Tensor wire;   // the same, or a converted copy
    bool shared;   // the tensor ranks' sum is under way, not the data ranks'
    Work work;
  };
  void launch(int bucket);
  void drain(size_t most);
  void reduce(Pending& pending);
  void reduce_shared();
  void complete(Pending& pending);
  // Sums the shards of buckets, chosen by `wanted`, over a group.
  template <class F>
  void sum_shards(Communicator& group, F&& wanted);

  FlatBuffers& buffers_;
  SharedGradients shared_;
  GradientGroups groups_;
  Backend& backend_;
  GradientReducerOptions options_;
  std::vector<int> waiting_;  // without overlap: started, not launched
  std::deque<Pending> pending_;
};

}  // namespace tessera
