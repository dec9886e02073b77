// SPDX-License-Identifier: Apache-2.0
// Sums gradient buckets over the ranks that hold terms of them. A bucket starts as soon as its gradients
// are final, while backward goes on; finish() waits for all. Without overlap the same calls run at the end,
// in the same order, so the bits do not depend on it.
#pragma once
#include <span>
#include <vector>

#include "framework/comm/communicator.h"
#include "framework/ops/backend.h"
#include "framework/parallel/data/flat_buffers.h"

namespace tessera {

struct GradientReducerOptions {
  bool overlap = true;
  DType wire = DType::F32;  // the type that travels; sums are made in fp32 and rounded to it once
};

class GradientReducer {
 public:
  GradientReducer(std::span<Bucket> buckets, Communicator& group, Backend& backend,
                  const GradientReducerOptions& options)
      : buckets_(buckets), group_(group), backend_(backend), options_(options) {}

  void start(int bucket);
  void finish();

 private:
  struct Pending {
    int bucket;
    Tensor wire;  // the bucket's gradients, or a converted copy of them
    Work work;
  };
  void launch(int bucket);

  std::span<Bucket> buckets_;
  Communicator& group_;
  Backend& backend_;
  GradientReducerOptions options_;
  std::vector<int> waiting_;  // without overlap: started, not launched
  std::vector<Pending> pending_;
};

}  // namespace tessera
