// SPDX-License-Identifier: Apache-2.0
#include "framework/ops/cross_entropy.h"

#include <algorithm>

#include "framework/ops/checks.h"
#include "framework/ops/memory.h"

namespace tessera {
namespace {
using detail::check_matrix;
using detail::check_vector;

void check_local_classes(const Tensor& logits, const CrossEntropyOptions& options) {
  check_matrix("cross_entropy", "logits", logits);
  CHECK(options.first_class >= 0 && options.first_class + logits.size(1) <= options.classes,
        "cross_entropy: logits {} hold classes from {} on, of {} in all", logits.describe(),
        options.first_class, options.classes);
}
}  // namespace

Tensor cross_entropy_stats(Backend& backend, const Tensor& logits, const Tensor& targets,
                           const CrossEntropyOptions& options) {
  check_local_classes(logits, options);
  check_vector("cross_entropy", "targets", targets, DType::I32, logits.size(0));
  Tensor stats = empty(backend, statistics_type(logits.dtype()), {logits.size(0), 4});
  backend.cross_entropy_stats(
      {.logits = logits, .targets = targets, .stats = stats, .first_class = options.first_class});
  return stats;
}

void cross_entropy_rescale(Backend& backend, const Tensor& stats, const Tensor& maximum) {
  check_matrix("cross_entropy_rescale", "stats", stats);
  CHECK(stats.size(1) == 4, "cross_entropy_rescale: stats {}", stats.describe());
  check_vector("cross_entropy_rescale", "maximum", maximum, stats.dtype(), stats.size(0));
  backend.cross_entropy_rescale({.stats = stats, .maximum = maximum});
}

Tensor cross_entropy_loss(Backend& backend, const Tensor& stats, const Tensor& targets, const Tensor& weights,
                          const Tensor& total, const CrossEntropyOptions& options, const Tensor& groups) {
  check_matrix("cross_entropy_loss", "stats", stats);
  const int64_t n = stats.size(0);
  check_vector("cross_entropy_loss", "stats", stats, stats.dtype(), 4 * n);
  check_vector("cross_entropy_loss", "targets", targets, DType::I32, n);
  check_vector("cross_entropy_loss", "weights", weights, DType::F32, n);
  // Of one group at least where there are groups, and of none where there are not.
  check_vector("cross_entropy_loss", "total", total, DType::F64,
               groups.defined() ? std::max<int64_t>(total.elements(), 2) : 1);
  if (groups.defined()) check_vector("cross_entropy_loss", "groups", groups, DType::I32, n);
  Tensor loss = empty(backend, stats.dtype(), {n});
  backend.cross_entropy_loss({.stats = stats,
                              .targets = targets,
                              .weights = weights,
                              .loss = loss,
                              .total = total,
                              .label_smoothing = options.label_smoothing,
                              .classes = options.classes,
                              .groups = groups});
  return loss;
}

void cross_entropy_backward(Backend& backend, const Tensor& logits, const Tensor& stats,
                            const Tensor& targets, const Tensor& weights, const Tensor& scale,
                            const CrossEntropyOptions& options) {
  check_local_classes(logits, options);
  const int64_t n = logits.size(0);
  check_vector("cross_entropy_backward", "stats", stats, statistics_type(logits.dtype()), 4 * n);
  check_vector("cross_entropy_backward", "targets", targets, DType::I32, n);
  check_vector("cross_entropy_backward", "weights", weights, DType::F32, n);
  check_vector("cross_entropy_backward", "scale", scale, DType::F64, 1);
  backend.cross_entropy_backward({.logits = logits,
                                  .stats = stats,
                                  .targets = targets,
                                  .weights = weights,
                                  .scale = scale,
                                  .label_smoothing = options.label_smoothing,
                                  .classes = options.classes,
                                  .first_class = options.first_class});
}

}  // namespace tessera
