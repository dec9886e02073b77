// SPDX-License-Identifier: Apache-2.0
#include "framework/optim/gradient_norm.h"

#include "framework/ops/memory.h"

namespace tessera {

double sum_of_squares(std::span<const ParameterShard> shards, Backend& backend) {
  const Tensor total = zeros(backend, DType::F64, {1});
  for (const ParameterShard& shard : shards) backend.sum_squares(shard.gradient, total);
  return to_host<double>(backend, total)[0];
}

double clip_factor(double norm, double clip) {
  return clip > 0 && norm > clip ? clip / norm : 1.0;
}

}  // namespace tessera
