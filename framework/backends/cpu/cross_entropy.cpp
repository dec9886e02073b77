// SPDX-License-Identifier: Apache-2.0
// A row counts when it has a target and a weight that is not 0. All others are written as zeros and never
// read beyond that, so that what they hold (NaN, infinity) cannot reach a result.
#include <cmath>

#include "framework/backends/cpu/cpu_backend_impl.h"
#include "framework/backends/cpu/element.h"
#include "framework/backends/cpu/parallel.h"
#include "framework/backends/cpu/row_kernels.h"

namespace tessera::cpu {
namespace {
bool counts(int32_t target, float weight) {
  return target >= 0 && weight != 0;
}
}  // namespace

void CpuBackend::cross_entropy_stats(const CrossEntropyStatsArgs& args) {
  visit_float(args.logits.dtype(), [&]<class T>() {
    using R = Real<T>;
    const auto logits = matrix_view<T>(args.logits);
    const auto stats = matrix_view<R>(args.stats);
    const int32_t* targets = args.targets.data<int32_t>();
    parallel_for(threads(), logits.rows, row_grain(logits.columns), [&](int64_t begin, int64_t end) {
      RowBuffers<T> buffers(1, logits.columns);
      for (int64_t i = begin; i < end; ++i) {
        const R* row = read<T>(logits.row(i), buffers[0], logits.columns);
        R* out = stats.row(i);
        softmax_stats_row(row, logits.columns, out[0], out[1], out[3]);
        const int64_t target = targets[i] - args.first_class;
        out[2] = targets[i] >= 0 && target >= 0 && target < logits.columns ? row[target] : R(0);
      }
    });
  });
}

void CpuBackend::cross_entropy_rescale(const CrossEntropyRescaleArgs& args) {
  visit_real(args.stats, [&]<class R>() {
    const auto stats = matrix_view<R>(args.stats);
    const R* maximum = args.maximum.data<R>();
    for (int64_t i = 0; i < stats.rows; ++i) {
      R* row = stats.row(i);
      if (row[0] != maximum[i])
        row[1] = static_cast<R>(static_cast<double>(row[1]) *
                                std::exp(static_cast<double>(row[0]) - static_cast<double>(maximum[i])));
      row[0] = maximum[i];
    }
  });
}

void CpuBackend::cross_entropy_loss(const CrossEntropyLossArgs& args) {
  visit_real(args.stats, [&]<class R>() {
    const auto stats = matrix_view<R>(args.stats);
    const int32_t* targets = args.targets.data<int32_t>();
    const float* weights = args.weights.data<float>();
    R* loss = args.loss.data<R>();
    const double smoothing = args.label_smoothing;
    const int32_t* groups = args.groups.defined() ? args.groups.data<int32_t>() : nullptr;
    const int64_t group_count = args.total.elements() - 1;
    double* totals = args.total.data<double>();
    double total = 0;
    for (int64_t i = 0; i < stats.rows; ++i) {
      loss[i] = R(0);
      if (!counts(targets[i], weights[i])) continue;
      CHECK(targets[i] < args.classes, "target {} of token {} in {} classes", targets[i], i, args.classes);
      const R* row = stats.row(i);
      const double lse = static_cast<double>(row[0]) + std::log(static_cast<double>(row[1]));
      const double mean = static_cast<double>(row[3]) / static_cast<double>(args.classes);
      const double value = (1 - smoothing) * (lse - static_cast<double>(row[2])) + smoothing * (lse - mean);
      loss[i] = static_cast<R>(value);
      const double weighted = static_cast<double>(weights[i]) * value;
      total += weighted;
      if (groups == nullptr) continue;
      CHECK(groups[i] >= 0 && groups[i] < group_count, "token {} is of group {} of {}", i, groups[i],
            group_count);
      totals[1 + groups[i]] += weighted;
    }
    totals[0] += total;
  });
}

// d loss / d logit = softmax - (1 - s) [target] - s / classes.
void CpuBackend::cross_entropy_backward(const CrossEntropyBackwardArgs& args) {
  visit_float(args.logits.dtype(), [&]<class T>() {
    using R = Real<T>;
    const auto logits = matrix_view<T>(args.logits);
    const auto stats = matrix_view<R>(args.stats);
    const int32_t* targets = args.targets.data<int32_t>();
    const float* weights = args.weights.data<float>();
    const double scale = *args.scale.data<double>();
    const double smoothing = args.label_smoothing;
    parallel_for(threads(), logits.rows, row_grain(logits.columns), [&](int64_t begin, int64_t end) {
      RowBuffers<T> buffers(1, logits.columns);
      for (int64_t i = begin; i < end; ++i) {
        if (!counts(targets[i], weights[i])) {
          std::fill_n(logits.row(i), logits.columns, T(0));
          continue;
        }
        const double factor = scale * static_cast<double>(weights[i]);
        const R* row = read<T>(logits.row(i), buffers[0], logits.columns);
        R* out = target<T>(logits.row(i), buffers[0]);
        softmax_gradient_row(row, out, logits.columns, stats.row(i)[0],
                             static_cast<R>(factor / static_cast<double>(stats.row(i)[1])),
                             static_cast<R>(factor * smoothing / static_cast<double>(args.classes)));
        const int64_t local = targets[i] - args.first_class;
        if (local >= 0 && local < logits.columns) out[local] -= static_cast<R>(factor * (1 - smoothing));
        written<T>(out, logits.row(i), logits.columns);
      }
    });
  });
}

}  // namespace tessera::cpu
