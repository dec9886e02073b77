// SPDX-License-Identifier: Apache-2.0
// Cross entropy in three calls, so that a vocabulary cut over ranks can combine the statistics between the
// first two. A row of weight 0 has no influence on anything, whatever its logits and target.
#pragma once
#include "framework/ops/backend.h"

namespace tessera {

struct CrossEntropyOptions {
  int64_t classes;  // logical
  double label_smoothing = 0;
  int64_t first_class = 0;  // of the local columns
};

// Returns stats [n, 4]; see CrossEntropyStatsArgs.
Tensor cross_entropy_stats(Backend& backend, const Tensor& logits, const Tensor& targets,
                           const CrossEntropyOptions& options);
// Statistics of a part of the classes, against `maximum` [n] in place of the part's own, in place.
void cross_entropy_rescale(Backend& backend, const Tensor& stats, const Tensor& maximum);
// Returns the unweighted losses [n] and adds their weighted sum to total[0], F64. With `groups`, I32 [n],
// what row i adds goes to total[1 + groups[i]] as well.
Tensor cross_entropy_loss(Backend& backend, const Tensor& stats, const Tensor& targets, const Tensor& weights,
                          const Tensor& total, const CrossEntropyOptions& options, const Tensor& groups = {});
// Overwrites logits with scale * weight * d loss / d logit. scale is F64 [1].
void cross_entropy_backward(Backend& backend, const Tensor& logits, const Tensor& stats,
                            const Tensor& targets, const Tensor& weights, const Tensor& scale,
                            const CrossEntropyOptions& options);

}  // namespace tessera
